import type { LoopOrder, LoopOutcome, ServerAddress, TrainerRunOptions } from '@osmosis/controller'
import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'

import type { EvaluationItem, ItemOutcome, ItemRunner } from './item-runner.ts'

const unboundedDeadlineSeconds = 3600

/** Starts one rollout of an agent loop and resolves to its end; a `Trainer` does. */
export interface LoopSender {
  run(order: LoopOrder, options: TrainerRunOptions): Promise<LoopOutcome>
}

/** Options of {@link loopRunner}. */
export interface LoopRunnerOptions {
  /** Where the loop is served. Default: the trainer's own server. */
  readonly server?: ServerAddress
  /** Most answers of the policy per rollout. Default: the server's, which is 10. */
  readonly maxTurns?: number
  /** Parameters of the model calls, by their names on the wire. Default: none. */
  readonly completionParams?: Readonly<Record<string, unknown>>
  /** How long a rollout may take. Seconds. Default: null, 3600. */
  readonly timeoutSeconds?: number | null
}

/**
 * Runs items as rollouts of an agent loop. Its metadata holds the other columns of the row, its
 * `metadata`, `ground_truth`, `row_index`, and `execution_mode: 'eval'`.
 *
 * @param trainer - whose policy answers the model calls; the caller closes it
 */
export function loopRunner(trainer: LoopSender, options: LoopRunnerOptions = {}): ItemRunner {
  const server = options.server === undefined ? {} : { server: options.server }
  return {
    async run(item, { signal, needsReward }) {
      try {
        const outcome = await trainer.run(toLoopOrder(item, options), { signal, ...server })
        if (outcome.status === 'cancelled') signal.throwIfAborted()
        return toOutcome(outcome, needsReward)
      } catch (error) {
        // A loop that has no tools for a row refuses this row alone, with 500.
        if (!isOsmosisError(error) || error.status !== 500) throw error
        const why = errorMessage(error.cause ?? error)
        throw new OsmosisError('invalid_request', why, { cause: error })
      }
    },
  }
}

function toLoopOrder(
  { rolloutId, row }: EvaluationItem,
  { maxTurns, completionParams, timeoutSeconds }: LoopRunnerOptions,
): LoopOrder {
  return {
    rolloutId,
    messages: row.initialMessages,
    ...(completionParams === undefined ? {} : { completionParams }),
    ...(maxTurns === undefined ? {} : { maxTurns }),
    metadata: {
      ...row.otherColumns,
      ...row.metadata,
      ...(row.label === null ? {} : { ground_truth: row.label }),
      row_index: row.sourceRowIndex,
      execution_mode: 'eval',
    },
    timeoutMs: (timeoutSeconds ?? unboundedDeadlineSeconds) * 1000,
  }
}

function toOutcome(outcome: LoopOutcome, needsReward: boolean): ItemOutcome {
  const { finalMessages: messages, reward, policyCalls, usage, durationMs } = outcome
  const failure = failureOf(outcome, needsReward)
  return {
    status: failure === undefined ? 'success' : 'failed',
    reward,
    sampleRewards: {},
    samples: failure === undefined ? [{ messages, solutionStr: lastAnswer(messages), reward }] : [],
    usage: policyCalls === 0 ? null : usage,
    durationMs,
    errorType: failure?.type ?? null,
    errorMessage: failure?.message ?? null,
  }
}

function failureOf(
  { status, reward, errorMessage: message }: LoopOutcome,
  needsReward: boolean,
): { type: string; message: string } | undefined {
  switch (status) {
    case 'timeout':
      return { type: 'callback_timeout', message: message ?? 'no result in time' }
    case 'cancelled':
      return { type: 'cancelled', message: message ?? 'the rollout was cancelled' }
    case 'failure':
      return { type: 'agent_error', message: message ?? 'the loop failed and did not say why' }
    case 'success':
      if (reward !== null || !needsReward) return undefined
      return { type: 'missing_reward', message: 'the loop completed without a reward' }
  }
}

/** Empty when the last assistant message only calls tools: that is no answer. */
function lastAnswer(messages: LoopOutcome['finalMessages']): string {
  const content = messages.findLast(({ role }) => role === 'assistant')?.['content']
  return typeof content === 'string' ? content : ''
}
