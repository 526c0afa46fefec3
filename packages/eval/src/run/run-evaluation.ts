import type { EvaluatedModel, EvaluationOptions } from './evaluation-options.ts'
import type { EvaluationResult } from './evaluation-result.ts'
import { EvaluationState } from './evaluation-state.ts'
import { itemsAgain, pendingItems, type ItemRange } from './evaluation-items.ts'
import { ItemEnds } from './item-ends.ts'
import type { EvaluationItem, ModelTag } from './item-runner.ts'
import { PacedRun } from './paced-run.ts'
import { RunSnapshotFiles } from './run-snapshots.ts'
import { costOfItems } from './run-cost.ts'
import { StopSwitch } from './stop-switch.ts'
import { runWorkerPool } from './worker-pool.ts'

/**
 * Runs every row `n` times by every model, row by row, at most `maxInFlight` items at once, scores
 * what succeeds, and resolves to what came of it. Rollouts that fail are records, not errors.
 *
 * With `gradesGroups` the attempts of a model at a row are run at the same time, so that none of them waits
 * for one that has not begun; a group of which some have not ended is run again as a whole.
 *
 * An item that was lost to a rate limit (429) is run again, as another rollout, behind all others. As long
 * as its policy counts refusals, fewer items are run at once after each, and more again without.
 *
 * With a `store` every end is kept before it is acknowledged, and what the store has already is not run.
 *
 * No further item is started when the server cannot be reached, answers with 5xx or refuses the key,
 * when a policy turns out to be unable to answer any call, when 20 rollouts in a row were lost to a
 * policy that is down, when items were run again for so long as `patienceMs` and none ended, or when as many items have failed
 * as `failOnError` says, the first 20 alike without it; when `signal` aborts or an end cannot be kept, those under way are
 * cancelled too. What has not ended then stays pending, items that failed for that reason included: the
 * result is `incomplete` and says why.
 *
 * @throws RangeError for an `n` or `maxInFlight` that is not a positive integer; whatever a callback
 * throws, after items under way were cancelled
 */
export async function runEvaluation(options: EvaluationOptions): Promise<EvaluationResult> {
  const { store, n = 1, maxInFlight = 1, gradesGroups = false } = options
  assertPositiveInteger('n', n)
  assertPositiveInteger('maxInFlight', maxInFlight)
  const models = new Map<ModelTag, EvaluatedModel>([['primary', options.model]])
  if (options.baseline !== undefined) models.set('baseline', options.baseline)
  const { rows } = options
  const range: ItemRange = { rows, attempts: n, models: [...models.keys()], gradesGroups }
  const snapshots = store && new RunSnapshotFiles(store, models.size > 1)
  const state = new EvaluationState(
    {
      names: options.names,
      rowCount: options.rows.length,
      attempts: n,
      passThreshold: options.passThreshold ?? 1,
      scoreNames: options.scorers?.map(({ name }) => name) ?? [],
      model: options.model.name,
      baseline: options.baseline?.name,
    },
    store,
  )
  const stop = new StopSwitch(options.signal)
  const together = gradesGroups ? n : 1
  const most = Math.max(1, Math.floor(maxInFlight / together))
  const pace = new PacedRun(Math.min(most, state.total))
  const ends = new ItemEnds({
    ...options,
    models,
    state,
    stop,
    onKept: (event) => snapshots?.add(event),
    inFlight: () => ({ limit: pace.limit * together, most: pace.most * together }),
  })

  /** Whether it is to be run again. */
  async function work(item: EvaluationItem): Promise<boolean> {
    try {
      const again = await ends.run(item)
      await snapshots?.refresh(() => state.running())
      return again
    } catch (error) {
      stop.cancel(error)
      throw error
    }
  }

  async function workTogether(
    group: readonly EvaluationItem[],
  ): Promise<readonly EvaluationItem[] | undefined> {
    const ended = await Promise.allSettled(group.map(work))
    const failure = ended.find((end) => end.status === 'rejected')
    if (failure) throw failure.reason
    pace.itemEnded()
    const again = ended.some((end) => end.status === 'fulfilled' && end.value)
    return again ? itemsAgain(group) : undefined
  }

  function hasRoom(running: number): boolean {
    let refusals = 0
    for (const { policy } of models.values()) refusals += policy?.refusals ?? 0
    return pace.hasRoom(running, refusals)
  }

  const { runAgain = () => false, redact = (data) => data } = options
  const items = pendingItems(range, store?.events ?? new Map(), runAgain)
  try {
    await runWorkerPool(items, workTogether, { hasRoom, halted: () => ends.halted })
    if (!ends.halted) await ends.settle()
  } finally {
    stop.release()
  }
  const ended = state.ended(stop.reason === undefined ? undefined : redact(stop.reason))
  try {
    await snapshots?.write(ended)
  } catch (error) {
    // A full disk has said so already.
    if (!stop.signal.aborted) throw error
  }
  const cost = costOfItems(store?.events.values() ?? [])
  return { ...ended, cost, location: store?.location ?? null }
}

function assertPositiveInteger(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return
  throw new RangeError(`${name} must be a positive integer, got ${value}.`)
}
