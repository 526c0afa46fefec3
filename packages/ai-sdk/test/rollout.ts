import { rolloutModel, type RolloutModelSettings } from '@osmosis/ai-sdk'
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
import type { PolicyServer, ReceivedRequest } from '@osmosis/testing'
import { generateText, isStepCount, type ModelMessage, streamText, tool, type ToolSet } from 'ai'
import { z } from 'zod'

/** A rollout whose policy is `server`. */
export function rolloutOn(
  server: { readonly url: string },
  rolloutId = 'rollout-1',
): RolloutContext {
  return new RolloutContext({ rolloutId, chatCompletionsUrl: server.url, apiKey: 'key' })
}

/** Adds two numbers; what else the policy passes is ignored. */
export const tools: ToolSet = {
  add: tool({
    description: 'Adds two numbers.',
    inputSchema: z.looseObject({ a: z.number(), b: z.number() }),
    execute: async ({ a, b }) => `sum: ${a + b}`,
  }),
}

/** A call of the tool `add`. */
export const callAdd = { toolCalls: [{ id: 'call-1', name: 'add', arguments: '{"a":1,"b":2}' }] }

/** The functions of the SDK that run a tool loop, each resolving with the last text. */
export const loops = {
  async generateText(settings: RolloutModelSettings, prompt: string): Promise<string> {
    const model = rolloutModel(settings)
    const { text } = await generateText({ model, prompt, tools, stopWhen: isStepCount(20) })
    return text
  },
  async streamText(settings: RolloutModelSettings, prompt: string): Promise<string> {
    const model = rolloutModel(settings)
    let said = ''
    const result = streamText({ model, prompt, tools, stopWhen: isStepCount(20) })
    for await (const text of result.textStream) said += text
    return said
  },
}

export function messagesOf(request: ReceivedRequest | undefined): ChatMessage[] {
  return (request?.body['messages'] ?? []) as ChatMessage[]
}

/** The text of the first message, which a conversation keeps. */
export function firstText(request: ReceivedRequest): string {
  const content = messagesOf(request)[0]?.content
  if (typeof content !== 'string') throw new TypeError('the first message is no text')
  return content
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

/** What the messages of a sample are, one word each. */
export function rolesOf({ messages }: Pick<RolloutSample, 'messages'>): string[] {
  return (messages as { role: string }[]).map(({ role }) => role)
}

/** A tool call of the policy, to {@link tools}. */
export function callOfAdd(
  id: string,
  args = '{"a":1,"b":2}',
): { id: string; name: string; arguments: string } {
  return { id, name: 'add', arguments: args }
}

/** What the tools returned, in the messages of a sample. */
export function toolOutputs({ messages }: RolloutSample): unknown[] {
  return (messages as ModelMessage[]).flatMap((message) =>
    message.role === 'tool'
      ? message.content.map((part) => 'output' in part && [part.toolCallId, part.output])
      : [],
  )
}

/** Executes a workflow with its grader as a backend does. */
export async function execute(
  server: PolicyServer,
  workflow: AgentWorkflowClass | ((prompt: PromptMessage[]) => Promise<unknown>),
  options: {
    prompt?: PromptMessage[]
    label?: string
    grader?: GraderClass
    agentTimeoutSeconds?: number
  } = {},
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
