import { randomUUID } from 'node:crypto'

import { type ItemEvent, itemKey } from '../analysis/records/item-event.ts'
import type { DatasetRow } from '../dataset/dataset-row.ts'
import type { EvaluationOptions } from './evaluation-options.ts'
import { type EvaluationResult, EvaluationState } from './evaluation-state.ts'
import { ItemLifecycle } from './item-lifecycle.ts'
import type { EvaluationItem } from './items/item-runner.ts'
import { RunSnapshotFiles } from './run-snapshots.ts'
import { costOfItems, StopSwitch } from './stop-conditions.ts'

/**
 * The number of concurrent items for an endpoint that limits the rate of calls: halved after a refusal, and
 * increased by one whenever that number of items have ended, up to a maximum.
 */
class Concurrency {
  readonly max: number
  #limit: number
  #refusals = 0
  /** Items that have ended since the last refusal, or since the limit was changed. */
  #ended = 0

  constructor(max: number) {
    this.max = max
    this.#limit = max
  }

  get limit(): number {
    return this.#limit
  }

  /**
   * Whether one more item may be started.
   *
   * @param refusals - calls that were refused so far
   */
  hasRoom(running: number, refusals: number): boolean {
    if (refusals > this.#refusals) {
      this.#refusals = refusals
      this.#ended = 0
      // Items that were started before the last change may still be refused.
      if (running <= this.#limit) this.#limit = Math.max(1, Math.floor(this.#limit / 2))
    }
    return running < this.#limit
  }

  itemEnded(): void {
    this.#ended += 1
    if (this.#ended < this.#limit || this.#limit === this.max) return
    this.#limit += 1
    this.#ended = 0
  }
}

/**
 * Runs every row `n` times, row by row, with at most `maxInFlight` concurrent items, and scores the items
 * that succeed. Rollouts that fail are results, not errors.
 *
 * With `gradesGroups` the attempts at a row run concurrently, so that none waits for one that has not
 * started; a group in which some have not ended runs again as a whole.
 *
 * An item that was lost to a rate limit (429) or to a policy that was away runs again, as another rollout, after all others. Each refusal
 * that its policy counts reduces the number of concurrent items.
 *
 * With a `store` every outcome is stored before it is acknowledged, and stored items are not run.
 *
 * No further item is started when
 * - the server cannot be reached, answers with 5xx or refuses the key,
 * - the policy cannot answer any call, or 20 consecutive rollouts were lost to a policy that is down; also fewer, when
 *   no others are left and the policy still does not answer,
 * - items were run again for `patienceMs` and none ended,
 * - the limits `maxCostUsd` or `failOnError` are reached.
 *
 * When `signal` aborts or an outcome cannot be stored, items in progress are cancelled too. Items that have
 * not ended, or failed for such a reason, stay pending; the result is `incomplete` and says why.
 *
 * @throws RangeError for an `n` or `maxInFlight` that is not a positive integer; what a callback throws,
 * after items in progress were cancelled
 */
export async function runEvaluation(options: EvaluationOptions): Promise<EvaluationResult> {
  const { model, rows, store, n = 1, maxInFlight = 1, gradesGroups = false } = options
  assertPositiveInteger('n', n)
  assertPositiveInteger('maxInFlight', maxInFlight)
  const range: ItemRange = { rows, attempts: n, gradesGroups }
  const snapshots = store && new RunSnapshotFiles(store)
  const state = new EvaluationState(
    {
      names: options.names,
      rowCount: rows.length,
      attempts: n,
      passThreshold: options.passThreshold ?? 1,
      scoreNames: options.scorers?.map(({ name }) => name) ?? [],
      model: model.name,
    },
    store,
  )
  const stop = new StopSwitch(options.signal)
  const groupSize = gradesGroups ? n : 1
  const maxGroups = Math.max(1, Math.floor(maxInFlight / groupSize))
  const concurrency = new Concurrency(Math.min(maxGroups, state.total))
  const lifecycle = new ItemLifecycle({
    ...options,
    state,
    stop,
    onStored: (event) => snapshots?.add(event),
    inFlight: () => ({ limit: concurrency.limit * groupSize, max: concurrency.max * groupSize }),
  })

  /** Resolves to whether the item must be run again. */
  async function work(item: EvaluationItem): Promise<boolean> {
    try {
      const again = await lifecycle.run(item)
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
    concurrency.itemEnded()
    const again = ended.some((end) => end.status === 'fulfilled' && end.value)
    return again ? itemsAgain(group) : undefined
  }

  const { runAgain = () => false, redact = (data) => data } = options
  const items = pendingItems(range, store?.events ?? new Map(), runAgain)
  try {
    await runWorkerPool(items, workTogether, {
      hasRoom: (running) => concurrency.hasRoom(running, model.policy?.refusals ?? 0),
      halted: () => lifecycle.stopIfNeeded(),
    })
    if (!lifecycle.stopIfNeeded()) await lifecycle.settle()
  } finally {
    stop.release()
  }
  const ended = state.ended(stop.reason === undefined ? undefined : redact(stop.reason))
  try {
    await snapshots?.write(ended)
  } catch (error) {
    // A full disk was already reported.
    if (!stop.signal.aborted) throw error
  }
  const cost = costOfItems(store?.events.values() ?? [])
  return { ...ended, cost, location: store?.location ?? null }
}

function assertPositiveInteger(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return
  throw new RangeError(`${name} must be a positive integer, got ${value}.`)
}

interface TaskPoolOptions {
  /** Called before each item, with the number of running items. */
  readonly hasRoom: (running: number) => boolean
  readonly halted: () => boolean
}

/**
 * Runs `work` for `items` in order, concurrently while there is room, until all are done or `halted`. What
 * `work` resolves to is run after all others. Rejects with the first error of `work`, after which no item
 * is started, once the others have settled.
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

/** Determines the items of an evaluation. */
interface ItemRange {
  readonly rows: readonly DatasetRow[]
  readonly attempts: number
  /** Whether the attempts at a row are graded together. */
  readonly gradesGroups: boolean
}

/**
 * The items that have not ended yet, or must be run again, by row and attempt; a generator, so that
 * millions of them need no memory. Attempts that are graded together are yielded together, and all of them
 * if one must be run: a group grader judges them relative to one another.
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

/** The same items with new ids of rollouts and group. */
function itemsAgain(items: readonly EvaluationItem[]): EvaluationItem[] {
  const start = newStart()
  return items.map((item) => ({
    ...item,
    rolloutId: toRolloutId(item.row, item.runIndex),
    group: { ...item.group, id: toGroupId(item.row, start) },
  }))
}

function* evaluationItems(range: ItemRange): Generator<readonly EvaluationItem[], void> {
  const { rows, attempts, gradesGroups } = range
  const start = newStart()
  const runs = Array.from({ length: attempts }, (_, runIndex) => runIndex)
  for (const [rowIndex, row] of rows.entries()) {
    const toItem = (runIndex: number): EvaluationItem => {
      const group = { id: toGroupId(row, start), attempt: runIndex + 1, size: attempts }
      return { rolloutId: toRolloutId(row, runIndex), row, rowIndex, runIndex, group }
    }
    if (gradesGroups) yield runs.map(toItem)
    else for (const runIndex of runs) yield [toItem(runIndex)]
  }
}

function keyOf({ row, runIndex }: EvaluationItem): string {
  return itemKey({ source_row_index: row.sourceRowIndex, run_index: runIndex })
}

function newStart(): string {
  return randomUUID().slice(0, 8)
}

function toGroupId({ sourceRowIndex }: DatasetRow, start: string): string {
  return `eval-${sourceRowIndex}-${start}`
}

function toRolloutId({ sourceRowIndex }: DatasetRow, runIndex: number): string {
  return `eval-${sourceRowIndex}-run-${runIndex}-${randomUUID().slice(0, 8)}`
}
