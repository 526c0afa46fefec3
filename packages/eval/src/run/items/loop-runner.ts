import type {
  LoopOrder,
  LoopOutcome,
  RecordedPolicy,
  RolloutRecording,
  ServerAddress,
  TrainerRunOptions,
} from '@osmosis/controller'
import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { withoutThinking } from '@osmosis/core/scores'

import { unnamedSample, transcriptsOf, wireConversations } from './item-record.ts'
import type { EvaluationItem, ItemOutcome, ItemRunner, ItemRecord } from './item-runner.ts'

const unboundedDeadlineSeconds = 3600

/** Runs one rollout of an agent loop, as a `Trainer` does. */
export interface LoopSender {
  run(order: LoopOrder, options: TrainerRunOptions): Promise<LoopOutcome>
}

/** Options of {@link loopRunner}. */
export interface LoopRunnerOptions {
  /** The server of the loop. Default: the trainer's own server. */
  readonly server?: ServerAddress
  /** Maximum answers of the policy per rollout. Default: the server's, which is 10. */
  readonly maxTurns?: number
  /** Parameters of the model calls, by their names on the wire. Default: none. */
  readonly completionParams?: Readonly<Record<string, unknown>>
  /** Deadline of a rollout. Seconds. Default: null, 3600. */
  readonly timeoutSeconds?: number | null
  /** The policy of the trainer, which records conversations. Default: no transcripts. */
  readonly recorded?: RecordedPolicy
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
    async run(item, { signal, needsReward, onEnd }) {
      const recording = options.recorded?.record(item.rolloutId)
      const parts = { item, recording, needsReward }
      const onTerminal = async (outcome: LoopOutcome): Promise<void> => {
        if (outcome.status === 'cancelled' && signal.aborted) return
        await onEnd?.(toOutcome(outcome, parts))
      }
      try {
        const order = toLoopOrder(item, options)
        const outcome = await trainer.run(order, { signal, onTerminal, ...server })
        if (outcome.status === 'cancelled') signal.throwIfAborted()
        return toOutcome(outcome, parts)
      } catch (error) {
        // A loop without tools for a row refuses only this row, with 500.
        if (!isOsmosisError(error) || error.status !== 500) throw error
        const why = errorMessage(error.cause ?? error)
        throw new OsmosisError('invalid_request', why, { cause: error })
      } finally {
        recording?.end()
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

interface OutcomeParts {
  readonly item: EvaluationItem
  readonly recording: RolloutRecording | undefined
  readonly needsReward: boolean
}

function toOutcome(outcome: LoopOutcome, parts: OutcomeParts): ItemOutcome {
  const { finalMessages: messages, reward, policyCalls, usage, durationMs } = outcome
  const failure = failureOf(outcome, parts.needsReward)
  return {
    status: failure === undefined ? 'success' : 'failed',
    reward,
    sampleRewards: hasEnded(outcome) ? { [unnamedSample]: reward } : {},
    samples: failure === undefined ? [{ messages, solutionStr: lastAnswer(messages), reward }] : [],
    usage: policyCalls === 0 ? null : usage,
    durationMs,
    errorType: failure?.type ?? null,
    errorMessage: failure?.message ?? null,
    record: toRecord(outcome, parts),
  }
}

/** The conversation of a loop is its only sample, which it reports at its end. */
function hasEnded({ status }: LoopOutcome): boolean {
  return status === 'success' || status === 'failure'
}

function toRecord(outcome: LoopOutcome, { item, recording }: OutcomeParts): ItemRecord {
  const { finalMessages: messages, reward, errorMessage: message, status } = outcome
  const { label, otherColumns, initialMessages } = item.row
  const metadata = { ...otherColumns, ...item.row.metadata }
  const sample = { id: unnamedSample, messages, reward }
  const isFailed = status !== 'success'
  return {
    trajectories: transcriptsOf(
      {
        rolloutId: item.rolloutId,
        initialMessages,
        label,
        metadata,
        extraFields: { row_index: item.rowIndex, run_index: item.runIndex },
        samples: messages.length === 0 ? new Map() : new Map([[sample.id, sample]]),
        failure: isFailed
          ? { phase: 'workflow', category: 'agent_error', message: message ?? status }
          : undefined,
      },
      recording,
    ),
    graded:
      messages.length === 0
        ? null
        : {
            label,
            metadata,
            artifacts: null,
            samples: {
              [sample.id]: { messages, label: null, metrics: {}, extra_fields: {} },
            },
            ...wireConversations(new Map([[sample.id, sample]]), recording),
          },
    metrics: {},
    gradingMs: null,
    trouble: recording?.trouble ?? null,
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

/** Empty when the last assistant message only calls tools or thinks, which is not an answer. */
export function lastAnswer(
  messages: readonly { readonly role?: unknown; readonly content?: unknown }[],
): string {
  const content = messages.findLast(({ role }) => role === 'assistant')?.content
  return typeof content === 'string' ? withoutThinking(content) : ''
}
