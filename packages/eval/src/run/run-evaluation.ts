import { errorMessage } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'

import { scoreItem } from '../scoring/score-item.ts'
import { classifyError } from './classify-error.ts'
import { evaluationItems } from './evaluation-items.ts'
import type { EvaluatedModel, EvaluationOptions } from './evaluation-options.ts'
import type { EvaluationResult } from './evaluation-result.ts'
import { EvaluationState } from './evaluation-state.ts'
import { type ItemRecord, type ItemScores, toItemRecord } from './item-record.ts'
import type { EvaluationItem, ItemOutcome, ModelTag } from './item-runner.ts'
import { StopSwitch } from './stop-switch.ts'
import { runWorkerPool } from './worker-pool.ts'

/**
 * Runs every row `n` times by every model, row by row, at most `maxInFlight` items at once, scores
 * what succeeds, and resolves to what came of it. Rollouts that fail are records, not errors.
 *
 * When the server cannot be reached, answers with 5xx or refuses the key, or when a policy turns out
 * to be unable to answer any call, no further item is started, and when `signal` aborts, those under
 * way are cancelled too. What has not ended then stays pending: the result is `incomplete` and says
 * why.
 *
 * @throws RangeError for an `n` or `maxInFlight` that is not a positive integer; whatever the sink
 * or a callback throws, after items under way were cancelled
 */
export async function runEvaluation(options: EvaluationOptions): Promise<EvaluationResult> {
  const { rows, sink, baseline, n = 1, maxInFlight = 1, passThreshold = 1, scorers = [] } = options
  assertPositiveInteger('n', n)
  assertPositiveInteger('maxInFlight', maxInFlight)
  const models = new Map<ModelTag, EvaluatedModel>([['primary', options.model]])
  if (baseline !== undefined) models.set('baseline', baseline)
  const state = new EvaluationState({
    names: options.names,
    rowCount: rows.length,
    attempts: n,
    passThreshold,
    scoreNames: scorers.map(({ name }) => name),
    model: options.model.name,
    baseline: baseline?.name,
  })
  const stop = new StopSwitch(options.signal)
  let done = 0

  async function work(item: EvaluationItem): Promise<void> {
    const { runner } = models.get(item.model) ?? options.model
    const record = await runItem(item, { runner, scorers, stop })
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

  function halted(): boolean {
    for (const [tag, { policy }] of models) {
      if (policy === undefined || policy.failure === null) continue
      stop.halt(models.size === 1 ? policy.failure : `${tag}: ${policy.failure}`)
    }
    return stop.reason !== undefined
  }

  try {
    const items = evaluationItems(rows, n, [...models.keys()])
    await runWorkerPool(items, work, { size: Math.min(maxInFlight, state.total), halted })
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
  {
    runner,
    scorers,
    stop,
  }: Required<Pick<EvaluationOptions, 'scorers'>> &
    Pick<EvaluatedModel, 'runner'> & { stop: StopSwitch },
): Promise<ItemRecord | undefined> {
  const startedAt = performance.now()
  const { signal } = stop
  try {
    const outcome = await runner.run(item, { signal, needsReward: scorers.length === 0 })
    // An eval function may not end, or not soon.
    const scores =
      scorers.length === 0
        ? unscored
        : await untilAborted(signal, () => scoreItem(scorers, item.row, outcome))
    return toItemRecord(item, outcome, scores)
  } catch (error) {
    if (signal.aborted) return undefined
    switch (classifyError(error)) {
      case 'item-failed': {
        const outcome = refused(error, performance.now() - startedAt)
        return toItemRecord(item, outcome, unscored)
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

const unscored: ItemScores = { scores: {}, scoreErrors: {} }

/** The end of an item that the server would not take. */
function refused(error: unknown, durationMs: number): ItemOutcome {
  return {
    status: 'failed',
    reward: null,
    sampleRewards: {},
    samples: [],
    usage: null,
    durationMs,
    errorType: 'rollout_protocol_error',
    errorMessage: errorMessage(error),
  }
}

function assertPositiveInteger(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return
  throw new RangeError(`${name} must be a positive integer, got ${value}.`)
}
