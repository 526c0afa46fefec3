import {
  AgentWorkflow,
  RolloutContext,
  type AgentWorkflowClass,
  type AgentWorkflowContext,
  type GraderClass,
  type PromptMessage,
  type RolloutSample,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { reportOf, type GradingOutcome, type RolloutReport } from '@osmosis/protocol'
import { LocalBackend } from '@osmosis/server/execution'
import {
  contractRules,
  runAdapterContract,
  type AdapterUnderTest,
  type PolicyServer,
  type ReceivedRequest,
} from '@osmosis/testing'
import { describe, it } from 'vitest'

/** A rollout whose policy is `server`. */
export function rolloutOn(
  server: { readonly url: string },
  rolloutId = 'rollout-1',
): RolloutContext {
  return new RolloutContext({ rolloutId, chatCompletionsUrl: server.url, apiKey: 'key' })
}

/** An answer of the policy that calls a tool `add`, which adds two numbers. */
export const callAdd = { toolCalls: [{ id: 'call-1', name: 'add', arguments: '{"a":1,"b":2}' }] }

export function messagesOf(request: ReceivedRequest | undefined): ChatMessage[] {
  return (request?.body['messages'] ?? []) as ChatMessage[]
}

/** The `x-sample-id` of every request, in order. */
export function sampleIds({ requests }: PolicyServer): unknown[] {
  return requests.map(({ headers }) => headers['x-sample-id'])
}

export async function sampleOf(rollout: RolloutContext, name = 'main'): Promise<RolloutSample> {
  const sample = (await rollout.getSamples()).get(name)
  if (sample) return sample
  throw new Error(`no sample "${name}"`)
}

/** The rewards of a grading, by the ids of samples. */
export function rewardsOf(grading: GradingOutcome | undefined): Record<string, number | null> {
  const samples = [...(grading?.samples.values() ?? [])]
  return Object.fromEntries(samples.map(({ id, reward }) => [id, reward]))
}

/** Options of a rollout; it is graded when there are a label and a grader. */
export interface ExecuteOptions {
  readonly prompt?: readonly PromptMessage[]
  readonly label?: string
  readonly metadata?: Record<string, unknown>
  readonly grader?: GraderClass
  /** Default: 20. */
  readonly agentTimeoutSeconds?: number
  readonly workflowConfig?: unknown
  /** Default: `key`. */
  readonly apiKey?: string
}

/** Executes a workflow, or a function that acts as one, with its grader as a backend does. */
export async function execute(
  server: { readonly url: string },
  workflow: AgentWorkflowClass | ((ctx: AgentWorkflowContext) => Promise<unknown>),
  options: ExecuteOptions = {},
): Promise<RolloutReport> {
  const {
    prompt = [{ role: 'user', content: 'go' }],
    label = null,
    metadata = null,
    grader,
  } = options
  const { agentTimeoutSeconds = 90, workflowConfig, apiKey = 'key' } = options
  const backend = new LocalBackend({ workflow: toWorkflowClass(workflow), workflowConfig, grader })
  return reportOf(
    backend.execute({
      rolloutId: 'rollout-1',
      initialMessages: prompt,
      label,
      metadata,
      chatCompletionsUrl: server.url,
      apiKey,
      agentTimeoutSeconds,
      graderTimeoutSeconds: 90,
      grade: grader !== undefined,
    }),
  )
}

/**
 * Tests with many rollouts at once that an adapter keeps them apart: a fifth of them, or all where `OSMOSIS_TESTS_ALL_RUNS`
 * is set.
 */
export function separatesRollouts(name: string, adapter: AdapterUnderTest, many: number): void {
  const concurrentRollouts = process.env['OSMOSIS_TESTS_ALL_RUNS'] ? many : Math.ceil(many / 5)
  const runner = { describe, it }
  const onlySeparation = (rule: string, body: () => Promise<void>): void => {
    if (rule === contractRules['never-crosses']) runner.it(rule, { timeout: 600_000 }, body)
  }
  const separation = { describe, it: Object.assign(onlySeparation, { skip: () => {} }) }
  runAdapterContract(separation, name, { ...adapter, concurrentRollouts })
}

function toWorkflowClass(
  workflow: AgentWorkflowClass | ((ctx: AgentWorkflowContext) => Promise<unknown>),
): AgentWorkflowClass {
  if (workflow.prototype instanceof AgentWorkflow) return workflow as AgentWorkflowClass
  const body = workflow as (ctx: AgentWorkflowContext) => Promise<unknown>
  return class extends AgentWorkflow {
    override async run(ctx: AgentWorkflowContext): Promise<void> {
      await body(ctx)
    }
  }
}
