import { existsSync } from 'node:fs'
import path from 'node:path'

import type {
  RecordedPolicy,
  ResultSample,
  RolloutOrder,
  RolloutOutcome,
  RolloutRecording,
  RunOptions,
  ServerAddress,
} from '@osmosis/controller'
import type { PhaseFailure } from '@osmosis/protocol/trajectory'

import { isThrown } from '../../analysis/records/error-text.ts'
import { average } from '../../analysis/statistics/estimate.ts'
import { placeOf } from '../../dataset/dataset-row.ts'
import type { GradedRollout } from '../../store/write/run-store.ts'
import {
  recordedStepRewards,
  meanMetrics,
  storedAnswer,
  transcriptsOf,
  wireConversations,
} from './item-record.ts'
import type { ItemOutcome, EvaluationItem, ItemRunner, ItemRecord } from './item-runner.ts'

const slackSeconds = 60
const unboundedDeadlineSeconds = 3600

/** Runs one rollout on a server, as a `Controller` does. */
export interface RolloutSender {
  run(order: RolloutOrder, options: RunOptions): Promise<RolloutOutcome>
}

/** Options of {@link workflowRunner}. */
export interface WorkflowRunnerOptions {
  /** The rollout server. Default: the controller's own server. */
  readonly server?: ServerAddress
  /**
   * Fetches results, so that the server must reach the controller only for model calls. Default: false, the
   * server calls back.
   */
  readonly fetchResult?: boolean
  /** Seconds. Default: null, unbounded. */
  readonly agentTimeoutSeconds?: number | null
  /** Seconds. Default: null, unbounded. */
  readonly graderTimeoutSeconds?: number | null
  /** The policy of the controller, which records conversations. Default: no transcripts. */
  readonly recorded?: RecordedPolicy
  /**
   * The folder of the run, if the rollout server stores artifacts in its `artifacts` folder. Default: the
   * place of artifacts is unknown.
   */
  readonly runFolder?: string
}

/**
 * Runs items as rollouts of a workflow, which a rollout server executes.
 *
 * Each rollout has a deadline of both budgets plus 60 s, or of 3600 s when either is unbounded.
 *
 * @param controller - whose policy answers the model calls; the caller closes it
 */
export function workflowRunner(
  controller: RolloutSender,
  options: WorkflowRunnerOptions = {},
): ItemRunner {
  const { server, fetchResult = false } = options
  const where = { ...(server && { server }), ...(fetchResult && { fetchResult }) }
  return {
    async run(item, { signal, needsReward, onEnd }) {
      const order = toRolloutOrder(item, options)
      const recording = options.recorded?.record(item.rolloutId)
      const parts = { item, order, recording, needsReward, runFolder: options.runFolder }
      const onTerminal = async (result: RolloutOutcome): Promise<void> => {
        if (result.status === 'cancelled' && signal.aborted) return
        await onEnd?.(toOutcome(result, parts))
      }
      try {
        const result = await controller.run(order, { signal, onTerminal, ...where })
        if (result.status === 'cancelled') signal.throwIfAborted()
        return toOutcome(result, parts)
      } finally {
        recording?.end()
      }
    },
  }
}

function toRolloutOrder(
  { rolloutId, row, rowIndex, runIndex, group }: EvaluationItem,
  { agentTimeoutSeconds = null, graderTimeoutSeconds = null }: WorkflowRunnerOptions,
): RolloutOrder {
  return {
    rolloutId,
    initialMessages: row.initialMessages.map((message) => ({ ...message })),
    label: row.label,
    metadata: row.metadata,
    extraFields: { row_index: rowIndex, run_index: runIndex },
    group,
    agentTimeoutSeconds: agentTimeoutSeconds,
    graderTimeoutSeconds: graderTimeoutSeconds,
    timeoutMs: deadlineSeconds(agentTimeoutSeconds, graderTimeoutSeconds) * 1000,
  }
}

function deadlineSeconds(agent: number | null, grader: number | null): number {
  if (agent === null || grader === null) return unboundedDeadlineSeconds
  return agent + grader > 0 ? agent + grader + slackSeconds : unboundedDeadlineSeconds
}

interface OutcomeParts {
  readonly item: EvaluationItem
  readonly order: RolloutOrder
  readonly recording: RolloutRecording | undefined
  readonly needsReward: boolean
  readonly runFolder: string | undefined
}

function toOutcome(result: RolloutOutcome, parts: OutcomeParts): ItemOutcome {
  const classification = classifyResult(result, parts)
  const samples = [...result.samples.values()]
  const record = toRecord(result, parts)
  const { graded } = record
  return {
    ...classification,
    sampleRewards: Object.fromEntries(samples.map(({ id, reward }) => [id, reward])),
    ...recordedStepRewards(result.samples, parts.recording),
    samples:
      classification.status === 'success' && graded !== null
        ? samples.filter(isInTraining).map(({ id, messages, reward }) => ({
            messages,
            solutionStr: storedAnswer(graded, id),
            reward,
          }))
        : [],
    usage: result.policyCalls === 0 ? null : result.usage,
    durationMs: result.durationMs,
    record,
  }
}

function toRecord(result: RolloutOutcome, parts: OutcomeParts): ItemRecord {
  const { item, order, recording } = parts
  const { label = null, metadata = null, extraFields = null, initialMessages } = order
  const samples = [...result.samples.values()]
  return {
    trajectories: transcriptsOf(
      {
        rolloutId: item.rolloutId,
        initialMessages,
        label,
        metadata,
        extraFields,
        samples: result.samples,
        failure: failureOf(result),
      },
      recording,
    ),
    graded: samples.length === 0 ? null : gradedOf(result.samples, parts),
    metrics: meanMetrics(samples.filter(isInTraining).map(({ metrics }) => metrics)),
    gradingMs: result.gradingMs,
    trouble: recording?.trouble ?? null,
  }
}

function failureOf(result: RolloutOutcome): PhaseFailure | undefined {
  const { status, completion, errorCategory, errorMessage } = result
  if (status === 'success') return undefined
  return {
    phase: completion?.status === 'success' ? 'grading' : 'workflow',
    category: categoryOf(errorCategory),
    message: errorMessage ?? status,
  }
}

/** Documents have no categories for leases. */
function categoryOf(category: RolloutOutcome['errorCategory']): PhaseFailure['category'] {
  const isLeased = category === 'lease_expired' || category === 'internal_error'
  return category === null || isLeased ? 'agent_error' : category
}

function gradedOf(
  samples: ReadonlyMap<string, ResultSample>,
  { item, order, recording, runFolder }: OutcomeParts,
): GradedRollout {
  const { label = null, metadata = null } = order
  const { otherColumns } = item.row
  const artifacts = path.posix.join('artifacts', item.rolloutId, 'artifacts')
  const hasArtifacts = runFolder !== undefined && existsSync(path.join(runFolder, artifacts))
  return {
    label,
    metadata,
    ...(Object.keys(otherColumns).length === 0 ? {} : { other_columns: otherColumns }),
    artifacts: hasArtifacts ? artifacts : null,
    samples: Object.fromEntries(
      [...samples.values()].map(({ id, messages, label: own, metrics, extraFields, ...rest }) => [
        id,
        {
          messages,
          label: own,
          metrics,
          extra_fields: extraFields,
          ...(rest.removeSample ? { removed: true } : {}),
        },
      ]),
    ),
    ...wireConversations(samples, recording),
  }
}

function isInTraining({ removeSample }: ResultSample): boolean {
  return !removeSample
}

/** The outcome of an item, by the outcome of its rollout. */
type Classification = Pick<ItemOutcome, 'status' | 'reward' | 'errorType' | 'errorMessage'>

/**
 * Classifies the outcome of a rollout. An infrastructure failure has no reward, never a reward of 0; a
 * reward that was reported with a failure is preserved. With `needsReward` a rollout without a reward has
 * failed; without, a failed grader is not a failure, because eval functions score the samples.
 *
 * | outcome | status | error type |
 * |---|---|---|
 * | no terminal callback in time | failed | `callback_timeout` |
 * | cancelled at the server | failed | `cancelled` |
 * | failed, lost with its worker, server or queue | failed | `worker_lost`, `server_shutdown`, `queue_unavailable` |
 * | the workflow failed | failed | the server's category, or `workflow_failed` |
 * | the grader failed | failed | the server's category, or `grader_failed` |
 * | the grader failed, and its samples need no reward | as below | |
 * | success without samples | failed | `missing_grader_callback` |
 * | every sample removed | skipped | |
 * | a sample in training lacks a required reward | failed | `missing_reward` |
 * | anything else | success | |
 */
function classifyResult(
  result: RolloutOutcome,
  { item, needsReward }: Pick<OutcomeParts, 'item' | 'needsReward'>,
): Classification {
  const samples = [...result.samples.values()]
  const inTraining = samples.filter(isInTraining)
  const reward = meanReward(inTraining)
  switch (result.status) {
    case 'timeout':
      return failed('callback_timeout', result.errorMessage ?? 'no terminal callback in time', null)
    case 'cancelled':
      return failed('cancelled', result.errorMessage ?? 'the rollout was cancelled', reward)
    case 'failure': {
      const fault = result.completion?.status === 'failure' ? 'workflow' : 'grader'
      if (fault === 'grader' && !needsReward && samples.length > 0) break
      const message = result.errorMessage ?? `the ${fault} failed and the server did not say why`
      const type = result.lostWith ?? result.errorCategory ?? `${fault}_failed`
      // Such a failure may be the row's, which the server does not know by its place.
      const isOfRow = type === 'validation_error' && !aboutSamples.test(message)
      if (!isOfRow) return failed(type, message, reward)
      const place = placeOf(item.row)
      if (!isThrown(message)) return failed(type, `${place}: ${message}`, reward)
      // User code that cannot read a label speaks of the row; its other errors do not.
      const isOfLabel = /\blabel\b/.test(message)
      return failed(type, isOfLabel ? `${message} (${place} of the dataset)` : message, reward)
    }
    case 'success':
      break
  }
  if (samples.length === 0) {
    return failed('missing_grader_callback', 'the rollout ended without graded samples', null)
  }
  if (inTraining.length === 0) {
    return { status: 'skipped', reward: null, errorType: null, errorMessage: null }
  }
  if (reward === null && needsReward) {
    const missing = inTraining.filter((sample) => sample.reward === null).map(({ id }) => `"${id}"`)
    return failed('missing_reward', `no reward for sample ${missing.join(', ')}`, null)
  }
  return { status: 'success', reward, errorType: null, errorMessage: null }
}

/** Errors of the agent or of the grader, whatever the row. */
const aboutSamples =
  /^No model call reached the policy|^The grader set no reward|\bno sample to grade\b/

function failed(errorType: string, errorMessage: string, reward: number | null): Classification {
  return { status: 'failed', reward, errorType, errorMessage }
}

/** Null when a reward is missing: a missing reward is not a reward. */
function meanReward(samples: readonly ResultSample[]): number | null {
  const rewards = samples.flatMap(({ reward }) => reward ?? [])
  if (rewards.length === 0 || rewards.length < samples.length) return null
  return average(rewards)
}
