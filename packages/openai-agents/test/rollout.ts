import { type AgentInputItem, type AgentOptions, tool, type Tool } from '@openai/agents'
import {
  AgentWorkflow,
  type AgentWorkflowClass,
  type GraderClass,
  type GradingOutcome,
  LocalBackend,
  type PromptMessage,
  RolloutContext,
  type RolloutSample,
  type WorkflowOutcome,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/wire'
import { OsmosisAgent, OsmosisRolloutModel } from '@osmosis/openai-agents'
import type { PolicyServer, ReceivedRequest } from '@osmosis/testing'
import { z } from 'zod'

/** A rollout whose policy is `server`. */
export function rolloutOn(
  server: { readonly url: string },
  rolloutId = 'rollout-1',
): RolloutContext {
  return new RolloutContext({ rolloutId, chatCompletionsUrl: server.url, apiKey: 'key' })
}

/** An agent of the policy, inside the current rollout. */
export function policyAgent(config: Partial<AgentOptions> = {}): OsmosisAgent {
  return new OsmosisAgent({ name: 'agent', model: new OsmosisRolloutModel(), ...config })
}

/** Adds two numbers. */
export function addTool(): Tool {
  return tool({
    name: 'add',
    description: 'Adds two numbers.',
    parameters: z.object({ a: z.number(), b: z.number() }),
    execute: async ({ a, b }) => `sum: ${a + b}`,
  })
}

/** A call of {@link addTool}. */
export const callAdd = { toolCalls: [{ id: 'call-1', name: 'add', arguments: '{"a":1,"b":2}' }] }

export function messagesOf(request: ReceivedRequest | undefined): ChatMessage[] {
  return (request?.body['messages'] ?? []) as ChatMessage[]
}

/** The `x-sample-id` of every request, in order. */
export function sampleIds({ requests }: PolicyServer): unknown[] {
  return requests.map(({ headers }) => headers['x-sample-id'])
}

export async function sampleOf(rollout: RolloutContext, name: string): Promise<RolloutSample> {
  const sample = (await rollout.getSamples()).get(name)
  if (sample) return sample
  throw new Error(`no sample "${name}"`)
}

/** What the items of a sample are, one word each. */
export function kindsOf({ messages }: Pick<RolloutSample, 'messages'>): string[] {
  return (messages as AgentInputItem[]).map((item) =>
    'role' in item ? item.role : (item.type ?? 'unknown'),
  )
}

/** Executes a workflow with its grader as a backend does. */
export async function execute(
  server: PolicyServer,
  workflow: AgentWorkflowClass | ((prompt: PromptMessage[]) => Promise<unknown>),
  options: { prompt?: PromptMessage[]; label?: string; grader?: GraderClass } = {},
): Promise<{ workflow: WorkflowOutcome; grading: GradingOutcome | undefined }> {
  const { prompt = [{ role: 'user', content: 'go' }], label = null, grader } = options
  const backend = new LocalBackend({ workflow: toWorkflowClass(workflow), grader })
  let finished: WorkflowOutcome | undefined
  let grading: GradingOutcome | undefined
  await backend.execute(
    {
      rolloutId: 'rollout-1',
      initialMessages: prompt,
      label,
      metadata: null,
      chatCompletionsUrl: server.url,
      apiKey: 'key',
      agentTimeoutSeconds: 20,
      graderTimeoutSeconds: 20,
      grade: grader !== undefined,
    },
    {
      workflowFinished: async (outcome) => void (finished = outcome),
      gradingFinished: async (outcome) => void (grading = outcome),
    },
  )
  if (finished === undefined) throw new Error('the workflow never finished')
  return { workflow: finished, grading }
}

function toWorkflowClass(
  workflow: AgentWorkflowClass | ((prompt: PromptMessage[]) => Promise<unknown>),
): AgentWorkflowClass {
  if (workflow.prototype instanceof AgentWorkflow) return workflow as AgentWorkflowClass
  const body = workflow as (prompt: PromptMessage[]) => Promise<unknown>
  return class extends AgentWorkflow {
    override async run({ prompt }: { prompt: PromptMessage[] }): Promise<void> {
      await body(prompt)
    }
  }
}
