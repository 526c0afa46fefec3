import type {
  ResultSample,
  RolloutOrder,
  RolloutOutcome,
  RunOptions,
  ServerAddress,
} from '@osmosis/controller'
import { lastAssistantText } from '@osmosis/core'

import { classifyResult } from './classify-result.ts'
import type { EvaluationItem, ItemOutcome, ItemRunner } from './item-runner.ts'

const slackSeconds = 60
const unboundedDeadlineSeconds = 3600

/** Sends one rollout and resolves to its end; a `Controller` does. */
export interface RolloutSender {
  run(order: RolloutOrder, options: RunOptions): Promise<RolloutOutcome>
}

/** Options of {@link workflowRunner}. */
export interface WorkflowRunnerOptions {
  /** Where rollouts are sent. Default: the controller's own server. */
  readonly server?: ServerAddress
  /** Seconds. Default: null, unbounded. */
  readonly agentTimeoutSeconds?: number | null
  /** Seconds. Default: null, unbounded. */
  readonly graderTimeoutSeconds?: number | null
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
  const server = options.server === undefined ? {} : { server: options.server }
  return {
    async run(item, { signal, needsReward }) {
      const result = await controller.run(toRolloutOrder(item, options), { signal, ...server })
      if (result.status === 'cancelled') signal.throwIfAborted()
      return toOutcome(result, needsReward)
    },
  }
}

function toRolloutOrder(
  { rolloutId, row, rowIndex, runIndex }: EvaluationItem,
  { agentTimeoutSeconds = null, graderTimeoutSeconds = null }: WorkflowRunnerOptions,
): RolloutOrder {
  return {
    rolloutId,
    initialMessages: row.initialMessages.map((message) => ({ ...message })),
    label: row.label,
    metadata: row.metadata,
    extraFields: { row_index: rowIndex, run_index: runIndex },
    agentTimeoutSeconds: agentTimeoutSeconds,
    graderTimeoutSeconds: graderTimeoutSeconds,
    timeoutMs: deadlineSeconds(agentTimeoutSeconds, graderTimeoutSeconds) * 1000,
  }
}

function deadlineSeconds(agent: number | null, grader: number | null): number {
  if (agent === null || grader === null) return unboundedDeadlineSeconds
  return agent + grader > 0 ? agent + grader + slackSeconds : unboundedDeadlineSeconds
}

function toOutcome(result: RolloutOutcome, needsReward: boolean): ItemOutcome {
  const classification = classifyResult(result, needsReward)
  const samples = [...result.samples.values()]
  return {
    ...classification,
    sampleRewards: Object.fromEntries(samples.map(({ id, reward }) => [id, reward])),
    samples: classification.status === 'success' ? samples.filter(isKept).map(toScorable) : [],
    usage: result.policyCalls === 0 ? null : result.usage,
    durationMs: result.durationMs,
  }
}

function isKept({ removeSample }: ResultSample): boolean {
  return !removeSample
}

function toScorable(sample: ResultSample): ItemOutcome['samples'][number] {
  const { messages, reward } = sample
  return { messages, solutionStr: lastAssistantText(sample), reward }
}
