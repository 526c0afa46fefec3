import { openRunFolder } from '@osmosis/eval'
import { frameworkOf, rewrittenSteps, rolloutName, type ItemEvent } from '@osmosis/eval/analysis'

/** Where the conversations of one agent did not continue as they stood. */
export interface HistoryBreak {
  /** The id of the sample, which is the name of its agent or session. */
  readonly sampleId: string
  /** What its model calls said they come from, such as `Agents/JavaScript 0.11.0`; null for nothing. */
  readonly framework: string | null
  readonly rollouts: number
  /** `12.1`, and the step in it; null where the answer is in no step. */
  readonly first: { readonly rollout: string; readonly step: number | null }
}

/** More conversations than this are not read: their first ones say where it happens. */
const mostRead = 100

/** The places in the first rollouts that rewrote their history, by sample, the most frequent first. */
export async function historyBreaks(
  location: string,
  events: readonly ItemEvent[],
): Promise<HistoryBreak[]> {
  const rewritten = events.filter((event) => event.rewritten > 0).slice(0, mostRead)
  if (rewritten.length === 0) return []
  const run = await openRunFolder(location)
  const breaks = new Map<string, HistoryBreak>()
  for (const event of rewritten) {
    const said = await run.trajectories(event)
    if (said.state !== 'found') continue
    for (const [sampleId, trajectory] of Object.entries(said.value)) {
      const [step] = rewrittenSteps(trajectory)
      if (step === undefined) continue
      const rollout = rolloutName({ ...event, model_tag: 'primary' })
      const framework = frameworkOf(trajectory)
      const key = JSON.stringify([sampleId, framework])
      const { rollouts = 0, first = { rollout, step } } = breaks.get(key) ?? {}
      breaks.set(key, { sampleId, framework, rollouts: rollouts + 1, first })
    }
  }
  return [...breaks.values()].toSorted((a, b) => b.rollouts - a.rollouts)
}
