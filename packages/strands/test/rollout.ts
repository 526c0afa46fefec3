import { type FunctionTool, type InvokableTool, tool } from '@strands-agents/sdk'
import {
  AgentWorkflow,
  type AgentWorkflowClass,
  type AgentWorkflowContext,
  type GraderClass,
  type GradingOutcome,
  LocalBackend,
  type PromptMessage,
  RolloutContext,
  type RolloutSample,
  type WorkflowOutcome,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/wire'
import {
  OsmosisRolloutModel,
  OsmosisStrandsAgent,
  type OsmosisStrandsAgentConfig,
} from '@osmosis/strands'
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
export function policyAgent(config: OsmosisStrandsAgentConfig = {}): OsmosisStrandsAgent {
  return new OsmosisStrandsAgent({ name: 'main', model: new OsmosisRolloutModel(), ...config })
}

/** Adds two numbers. */
export function addTool(): InvokableTool<{ a: number; b: number }, string> | FunctionTool {
  return tool({
    name: 'add',
    description: 'Adds two numbers.',
    inputSchema: z.looseObject({ a: z.number(), b: z.number() }),
    callback: ({ a, b }) => `sum: ${a + b}`,
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

export async function sampleOf(rollout: RolloutContext, name = 'main'): Promise<RolloutSample> {
  const sample = (await rollout.getSamples()).get(name)
  if (sample) return sample
  throw new Error(`no sample "${name}"`)
}

/** What the messages of a conversation are, e.g. `user:text`. */
export function kindsOf(messages: readonly unknown[]): string[] {
  return (messages as { role: string; content: object[] }[]).map(
    ({ role, content }) => `${role}:${content.flatMap((block) => Object.keys(block)).join('+')}`,
  )
}

/** Executes a workflow with its grader as a backend does. */
export async function execute(
  server: PolicyServer,
  workflow: AgentWorkflowClass | ((ctx: AgentWorkflowContext) => Promise<unknown>),
  options: {
    prompt?: PromptMessage[]
    label?: string
    grader?: GraderClass
    agentTimeoutSeconds?: number
    workflowConfig?: unknown
  } = {},
): Promise<{ workflow: WorkflowOutcome; grading: GradingOutcome | undefined }> {
  const {
    prompt = [{ role: 'user', content: 'go' }],
    label = null,
    grader,
    workflowConfig,
  } = options
  const backend = new LocalBackend({ workflow: toWorkflowClass(workflow), workflowConfig, grader })
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
      agentTimeoutSeconds: options.agentTimeoutSeconds ?? 20,
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
