import { randomUUID } from 'node:crypto'

import type { ItemEvent } from '../analysis/item-event.ts'
import type { DatasetRow } from '../dataset/dataset-row.ts'
import { itemKey } from '../store/run-files.ts'
import type { EvaluatedModel, EvaluationOptions } from './evaluation-options.ts'
import type { EvaluationResult } from './evaluation-result.ts'
import { EvaluationState } from './evaluation-state.ts'
import { ItemEnds } from './item-ends.ts'
import type { EvaluationItem, ModelTag } from './item-runner.ts'
import { costOfItems } from './run-cost.ts'
import { RunSnapshotFiles } from './run-snapshots.ts'
import { StopSwitch } from './stop-switch.ts'

/**
 * How many items run at once, against an endpoint that limits the rate of calls: half as many after a
 * refusal, and one more whenever as many have ended as run at once, up to the most there may be.
 */
class PacedRun {
  readonly most: number
  #limit: number
  #refusals = 0
  /** Items that have ended since the last refusal, or since the limit was changed. */
  #ended = 0

  constructor(most: number) {
    this.most = most
    this.#limit = most
  }

  /** How many may run at once now. */
  get limit(): number {
    return this.#limit
  }

  /**
   * Whether one more may be started.
   *
   * @param refusals - calls that were refused so far
   */
  hasRoom(running: number, refusals: number): boolean {
    if (refusals > this.#refusals) {
      this.#refusals = refusals
      this.#ended = 0
      // Those that were started before the last change are refused until they have ended.
      if (running <= this.#limit) this.#limit = Math.max(1, Math.floor(this.#limit / 2))
    }
    return running < this.#limit
  }

  itemEnded(): void {
    this.#ended += 1
    if (this.#ended < this.#limit || this.#limit === this.most) return
    this.#limit += 1
    this.#ended = 0
  }
}

/**
 * Runs every row `n` times by every model, row by row, at most `maxInFlight` items at once, scores
 * what succeeds, and resolves to what came of it. Rollouts that fail are records, not errors.
 *
 * With `gradesGroups` the attempts of a model at a row are run concurrently, so that none of them waits
 * for one that has not started; a group of which some have not ended is run again as a whole.
 *
 * An item that was lost to a rate limit (429) is run again, as another rollout, behind all others. As long
 * as its policy counts refusals, fewer items are run at once after each, and more again without.
 *
 * With a `store` every end is kept before it is acknowledged, and what the store has already is not run.
 *
 * No further item is started when the server cannot be reached, answers with 5xx or refuses the key,
 * when a policy turns out to be unable to answer any call, when 20 rollouts in a row were lost to a
 * policy that is down, when items were run again for so long as `patienceMs` and none ended, or when as many items have failed
 * as `failOnError` says, the first 20 alike without it; when `signal` aborts or an end cannot be kept, those in progress are
 * cancelled too. What has not ended then stays pending, items that failed for that reason included: the
 * result is `incomplete` and says why.
 *
 * @throws RangeError for an `n` or `maxInFlight` that is not a positive integer; whatever a callback
 * throws, after items in progress were cancelled
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

/** How much is worked on at once. */
interface TaskPoolOptions {
  /** Asked before each item, with how many run already. */
  readonly hasRoom: (running: number) => boolean
  readonly halted: () => boolean
}

/**
 * Works through `items` in order, as many at a time as there is room for, until they are done or `halted`
 * says stop. What `work` resolves to comes behind all others. Resolves when nothing runs any more; rejects
 * with the first error of `work`, after which no item is started, once the others have settled.
 */
async function runWorkerPool<T extends object>(
  items: Iterable<T>,
  work: (item: T) => Promise<T | undefined>,
  { hasRoom, halted }: TaskPoolOptions,
): Promise<void> {
  const queue = items[Symbol.iterator]()
  const again: T[] = []
  let running = 0
  let failure: { readonly reason: unknown } | undefined
  let ended = Promise.withResolvers<void>()

  async function run(item: T): Promise<void> {
    running += 1
    try {
      const back = await work(item)
      if (back !== undefined) again.push(back)
    } catch (reason) {
      failure ??= { reason }
    }
    running -= 1
    ended.resolve()
  }

  function next(): T | undefined {
    if (failure !== undefined || !hasRoom(running) || halted()) return undefined
    const taken = queue.next()
    return taken.done ? again.shift() : taken.value
  }

  for (;;) {
    ended = Promise.withResolvers<void>()
    for (let item = next(); item !== undefined; item = next()) run(item).catch(ended.reject)
    if (running === 0) break
    await ended.promise
  }
  if (failure) throw failure.reason
}

/** Which items there are. */
interface ItemRange {
  readonly rows: readonly DatasetRow[]
  readonly attempts: number
  readonly models: readonly ModelTag[]
  /** Whether the attempts at a row are graded together. */
  readonly gradesGroups: boolean
}

/**
 * Those that have not ended yet, or are to be run again, by row, attempt and model, one at a time:
 * millions of them need no memory. Attempts that are graded together come together, by row and model, and
 * all of them when one is to be run: what a group grader says of some says nothing beside others.
 */
function* pendingItems(
  range: ItemRange,
  ended: ReadonlyMap<string, ItemEvent>,
  runAgain: (event: ItemEvent) => boolean,
): Generator<readonly EvaluationItem[], void> {
  for (const items of evaluationItems(range)) {
    const isPending = items.some((item) => {
      const event = ended.get(keyOf(item))
      return event === undefined || runAgain(event)
    })
    if (isPending) yield items
  }
}

/** The same items for another try: rollouts, and a group, of their own. */
function itemsAgain(items: readonly EvaluationItem[]): EvaluationItem[] {
  const start = newStart()
  return items.map((item) => ({
    ...item,
    rolloutId: toRolloutId(item.row, item.runIndex, item.model),
    group: { ...item.group, id: toGroupId(item.row, item.model, start) },
  }))
}

function* evaluationItems(range: ItemRange): Generator<readonly EvaluationItem[], void> {
  const { rows, attempts, models, gradesGroups } = range
  // Of this start: the group of an earlier one is another.
  const start = newStart()
  const runs = Array.from({ length: attempts }, (_, runIndex) => runIndex)
  for (const [rowIndex, row] of rows.entries()) {
    const toItem = (runIndex: number, model: ModelTag): EvaluationItem => {
      const id = toGroupId(row, model, start)
      const group = { id, attempt: runIndex + 1, size: attempts }
      return { rolloutId: toRolloutId(row, runIndex, model), row, rowIndex, runIndex, model, group }
    }
    if (gradesGroups) {
      for (const model of models) yield runs.map((runIndex) => toItem(runIndex, model))
    } else {
      for (const runIndex of runs) for (const model of models) yield [toItem(runIndex, model)]
    }
  }
}

function keyOf({ row, runIndex, model }: EvaluationItem): string {
  return itemKey({
    source_row_index: row.sourceRowIndex,
    run_index: runIndex,
    model_tag: model,
  })
}

function newStart(): string {
  return randomUUID().slice(0, 8)
}

function toGroupId({ sourceRowIndex }: DatasetRow, model: ModelTag, start: string): string {
  return `eval-${sourceRowIndex}${tagOf(model)}-${start}`
}

function toRolloutId({ sourceRowIndex }: DatasetRow, runIndex: number, model: ModelTag): string {
  return `eval-${sourceRowIndex}-run-${runIndex}${tagOf(model)}-${randomUUID().slice(0, 8)}`
}

function tagOf(model: ModelTag): string {
  return model === 'primary' ? '' : `-${model}`
}
