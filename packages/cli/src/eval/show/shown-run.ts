import { readFileSync } from 'node:fs'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { gradedEvents, openRun, type RunFolder, type RunReader } from '@osmosis/eval'
import { RunTable, toRunDocument, type ItemEvent, type RunManifest } from '@osmosis/eval/analysis'

import { commandName, type FoundRun } from './find-run.ts'

/** How far a run is. */
export interface ShownRunState {
  /** Of its journal, and of who has its lock. */
  readonly status: 'running' | 'finished' | 'incomplete'
  /** Items of all models that have ended, and that there are to be. */
  readonly done: number
  readonly total: number
  /** Why it is incomplete; null when that is not known. */
  readonly reason: string | null
  /** How long processes were at it. Milliseconds; 0 when that is not known. */
  readonly durationMs: number
}

/** What a report needs of the files of a run. Whoever writes to it has it at hand. */
export type RunFacts = Pick<RunReader, 'location' | 'name' | 'manifest' | 'events'>

/** The items of one model of a run. */
export interface ShownModel {
  readonly reader: RunFacts
  /** The name in messages, with `@baseline` or `@<grading>`. */
  readonly name: string
  /** What commands call it. */
  readonly command: string
  readonly modelTag: 'primary' | 'baseline'
  readonly table: RunTable
  /** Its events, by row and attempt. */
  readonly events: readonly ItemEvent[]
}

/** A run that is shown, or one of its variants, with all that was said in it. */
export interface ShownRun extends ShownModel {
  readonly reader: RunReader
}

/** The items of one model, of a run that this process has ended. */
export async function endedModel(
  reader: RunFacts,
  modelTag: 'primary' | 'baseline',
): Promise<ShownModel> {
  const events = [...reader.events.values()]
    .filter(({ model_tag: tag = 'primary' }) => tag === modelTag)
    .toSorted((a, b) => a.row_index - b.row_index || a.run_index - b.run_index)
  const behind = modelTag === 'primary' ? '' : `@${modelTag}`
  return {
    reader,
    name: `${reader.name}${behind}`,
    command: `${await commandName(reader.location)}${behind}`,
    modelTag,
    table: new RunTable(toRunDocument(reader.manifest, events, [], { modelTag })),
    events,
  }
}

/**
 * Opens a run with everything that is shown of it.
 *
 * @throws OsmosisError with code `invalid_config` when there is no such variant, `damaged_run`
 */
export async function openShownRun({ location, variant }: FoundRun): Promise<ShownRun> {
  const reader = await openRun(location)
  const modelTag = variant === 'baseline' ? 'baseline' : 'primary'
  const own = reader.sortedEvents.filter(({ model_tag: tag = 'primary' }) => tag === modelTag)
  const events = await graded(reader, variant, own)
  const notes = await reader.notes()
  const running = reader.writer() !== null
  const document = toRunDocument(reader.manifest, events, notes, { modelTag, running })
  const behind = variant === undefined ? '' : `@${variant}`
  return {
    reader,
    name: `${reader.name}${behind}`,
    command: `${await commandName(location)}${behind}`,
    modelTag,
    table: new RunTable(document),
    events,
  }
}

async function graded(
  reader: RunReader,
  variant: string | undefined,
  events: readonly ItemEvent[],
): Promise<readonly ItemEvent[]> {
  if (variant === undefined) return events
  await assertVariant(reader, variant)
  const isBaseline = variant === 'baseline' && hasBaseline(reader)
  return isBaseline ? events : gradedEvents(reader.manifest, events, await reader.grades(variant))
}

/**
 * Passes when the run has a baseline, or a re-grading of this name.
 *
 * @throws OsmosisError with code `invalid_config`, with what there is
 */
export async function assertVariant(run: RunFolder, variant: string): Promise<void> {
  const known = [...(hasBaseline(run) ? ['baseline'] : []), ...(await run.gradings())]
  if (known.includes(variant)) return
  const others =
    known.length === 0
      ? 'it has neither a baseline nor re-gradings'
      : `there are ${known.map((one) => `${run.name}@${one}`).join(', ')}`
  throw new OsmosisError('invalid_config', `There is no ${run.name}@${variant}: ${others}.`)
}

function hasBaseline({ manifest }: RunFolder): boolean {
  return manifest.inputs.model.baseline !== null
}

/**
 * How far a run is, by its journal; why it stopped, by what its process has left behind.
 *
 * @param isRunning - whether somebody will write to it
 */
export function runState(
  { manifest, location, events }: RunFacts,
  isRunning: boolean,
): ShownRunState {
  const total = plannedItems(manifest)
  const done = events.size
  const progress = readProgress(location)
  const status = isRunning ? 'running' : done < total ? 'incomplete' : 'finished'
  const said = progress['incomplete_reason']
  return {
    status,
    done,
    total,
    reason: status === 'incomplete' && typeof said === 'string' ? said : null,
    durationMs: Number(progress['duration_ms']) || 0,
  }
}

function plannedItems({ rows, n, inputs }: RunManifest): number {
  return rows.length * n * (inputs.model.baseline === null ? 1 : 2)
}

function readProgress(location: string): Readonly<Record<string, unknown>> {
  try {
    const read: unknown = JSON.parse(readFileSync(path.join(location, 'progress.json'), 'utf8'))
    return typeof read === 'object' && read !== null ? { ...read } : {}
  } catch {
    // A run that was killed before its first snapshot.
    return {}
  }
}
