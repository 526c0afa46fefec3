import { validateTrajectory, type Trajectory } from '@osmosis/runtime/trajectory'
import type { GradedRollout } from '@osmosis/eval'
import { rolloutName, type ItemEvent } from '@osmosis/eval/analysis'

/** A document of a sample, and the name of its file. */
export interface SampleDocument {
  readonly name: string
  readonly text: string
}

/** The documents of a rollout, with its rewards as they are now; a problem for what would not be valid. */
export function atifDocuments(
  event: ItemEvent,
  trajectories: Readonly<Record<string, Trajectory>>,
): { readonly documents: readonly SampleDocument[]; readonly problems: readonly string[] } {
  const all = Object.entries(trajectories)
  const place = rolloutName({ ...event, model_tag: 'primary' })
  const documents: SampleDocument[] = []
  const problems: string[] = []
  const taken = new Set<string>()
  for (const [id, trajectory] of all) {
    const document = withReward(trajectory, event.samples[id] ?? null)
    const found = validateTrajectory(document)
    if (found.length > 0) {
      problems.push(`${place} ${id}: ${found.join('; ')}`)
      continue
    }
    const name = all.length === 1 ? place : uniqueName(`${place}.${safeName(id)}`, taken)
    documents.push({ name: `${name}.json`, text: `${JSON.stringify(document, null, 2)}\n` })
  }
  return { documents, problems }
}

/** Documents are written when a rollout ends; it may have been graded again since. */
function withReward(trajectory: Trajectory, reward: number | null): Trajectory {
  const osmosis = (trajectory.extra?.['osmosis'] ?? {}) as Readonly<Record<string, unknown>>
  const { reward: _, ...rest } = osmosis
  const own = reward === null ? rest : { ...rest, reward }
  return { ...trajectory, extra: { ...trajectory.extra, osmosis: own } }
}

const longestName = 80

/** Ids of samples are chosen by users. */
function safeName(id: string): string {
  return id.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, longestName)
}

function uniqueName(name: string, taken: Set<string>): string {
  let unique = name
  // Some file systems take upper and lower case for the same.
  for (let number = 2; taken.has(unique.toLowerCase()); number++) unique = `${name}-${number}`
  taken.add(unique.toLowerCase())
  return unique
}

/** The conversations of the kept samples as lines of JSON; without those that nobody heard. */
export function sftLines(
  event: ItemEvent,
  graded: GradedRollout,
): { readonly lines: readonly string[]; readonly unheard: number } {
  const lines: string[] = []
  let unheard = 0
  for (const [id, sample] of Object.entries(graded.samples)) {
    // What has a reward was kept by whoever gave it.
    const isKept = event.reward === null ? !sample.removed : event.samples[id] != null
    if (!isKept) continue
    const wire = graded.wire?.[id]
    if (wire === undefined) {
      unheard += 1
      continue
    }
    const { messages = sample.messages, tools } = wire
    lines.push(`${JSON.stringify({ messages, ...(tools === undefined ? {} : { tools }) })}\n`)
  }
  return { lines, unheard }
}
