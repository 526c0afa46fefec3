import { classifyError } from './classify-error.ts'
import { type EvaluationItem, evaluationItems, toRolloutOrder } from './evaluation-items.ts'
import type { EvaluationOptions } from './evaluation-options.ts'
import type { EvaluationResult } from './evaluation-result.ts'
import { EvaluationState } from './evaluation-state.ts'
import type { ItemRecord } from './item-record.ts'
import { StopSwitch } from './stop-switch.ts'
import { toItemRecord, toRefusedRecord } from './to-item-record.ts'
import { runWorkerPool } from './worker-pool.ts'

/**
 * Runs every row `n` times, row by row, at most `maxInFlight` rollouts at once, and resolves to
 * what came of it. Rollouts that fail are records, not errors.
 *
 * Each rollout has a deadline of both budgets plus 60 s, or of 3600 s when either is unbounded.
 *
 * When the rollout server cannot be reached, answers with 5xx or refuses the key, no further item
 * is started, and when `signal` aborts, those under way are cancelled too. What has not ended then
 * stays pending: the result is `incomplete` and says why.
 *
 * @throws RangeError for an `n` or `maxInFlight` that is not a positive integer; whatever the sink
 * or a callback throws, after rollouts under way were cancelled
 */
export async function runEvaluation(options: EvaluationOptions): Promise<EvaluationResult> {
  const { rows, sink, n = 1, maxInFlight = 1, passThreshold = 1 } = options
  assertPositiveInteger('n', n)
  assertPositiveInteger('maxInFlight', maxInFlight)
  const state = new EvaluationState({
    names: options.names,
    rowCount: rows.length,
    attempts: n,
    passThreshold,
  })
  const stop = new StopSwitch(options.signal)
  let done = 0

  async function work(item: EvaluationItem): Promise<void> {
    const record = await runItem(item, options, stop)
    if (record === undefined) return
    try {
      state.add(record)
      await sink?.record(record, () => state.running())
      done += 1
      options.onItem?.(record)
      options.onProgress?.({ done, total: state.total, item: record })
    } catch (error) {
      stop.cancel(error)
      throw error
    }
  }

  try {
    await runWorkerPool(evaluationItems(rows, n), work, {
      size: maxInFlight,
      halted: () => stop.reason !== undefined,
    })
  } finally {
    stop.release()
  }
  const ended = state.ended(stop.reason)
  await sink?.finish(ended)
  return { ...ended, location: sink?.location ?? null }
}

/** Resolves to undefined for an item that stays pending. */
async function runItem(
  item: EvaluationItem,
  options: EvaluationOptions,
  stop: StopSwitch,
): Promise<ItemRecord | undefined> {
  const { agentTimeoutSeconds = null, graderTimeoutSeconds = null } = options
  const order = toRolloutOrder(item, { agentTimeoutSeconds, graderTimeoutSeconds })
  const { rolloutId } = order
  const startedAt = performance.now()
  try {
    const result = await options.runRollout(order, { signal: stop.signal })
    if (result.status === 'cancelled' && stop.signal.aborted) return undefined
    return toItemRecord(item, result)
  } catch (error) {
    if (stop.signal.aborted) return undefined
    switch (classifyError(error)) {
      case 'item-failed': {
        const durationMs = performance.now() - startedAt
        return toRefusedRecord(item, { rolloutId, error, durationMs })
      }
      case 'halt':
        stop.halt(error)
        return undefined
      case 'halt-and-cancel':
        stop.cancel(error)
        return undefined
    }
  }
}

function assertPositiveInteger(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return
  throw new RangeError(`${name} must be a positive integer, got ${value}.`)
}
