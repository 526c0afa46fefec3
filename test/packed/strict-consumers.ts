/**
 * Programs of users, with the packages they have installed. Frameworks stand apart: they need not
 * be installable next to one another.
 */
export const strictConsumers: readonly (readonly [names: readonly string[], program: string])[] = [
  [
    [
      '@osmosis/cli',
      '@osmosis/controller',
      '@osmosis/core',
      '@osmosis/eval',
      '@osmosis/openai-agents',
      '@osmosis/server',
      '@osmosis/testing',
    ],
    `
import { run } from '@openai/agents'
import { main } from '@osmosis/cli'
import { createController, scriptedPolicy } from '@osmosis/controller'
import { AgentWorkflow, defineWorkflowConfig, Grader, type AgentWorkflowContext, type GraderContext } from '@osmosis/core'
import { LocalBackend, createRolloutServer, discoverEntrypoint, serve } from '@osmosis/server'
import { policyModelName } from '@osmosis/core/policy'
import { runEvaluation, validateTrajectory } from '@osmosis/eval'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'

export const config = defineWorkflowConfig({ name: 'w', maxTurns: 8 })
export class Workflow extends AgentWorkflow<typeof config> {
  async run(ctx: AgentWorkflowContext<typeof config>): Promise<void> {
    const agent = new OsmosisAgent({ name: 'a', model: new OsmosisRolloutModel() })
    const session = new OsmosisMemorySession({ name: 'a' })
    const result = await run(agent, ctx.prompt, { session, maxTurns: ctx.config.maxTurns })
    const text: string | undefined = result.finalOutput
    void text
  }
}
export class Exact extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const [id] of ctx.samples) ctx.setSampleReward(id, 1)
  }
}
export const backend = new LocalBackend({ workflow: Workflow, workflowConfig: config, grader: Exact })
export const server = createRolloutServer({ backend })
export const rest = [main, createController, scriptedPolicy, discoverEntrypoint, policyModelName,
  runEvaluation, serve, startPolicyServer, validateTrajectory]
`,
  ],
  [
    ['@osmosis/eval', 'vitest'],
    `
import '@osmosis/eval/vitest'
import { openRun } from '@osmosis/eval'
import { expect, it } from 'vitest'

it('passes', async () => {
  const run = await openRun('first')
  expect(run).toPass({ rate: 0.8 })
  expect(run).not.toPass({ rate: 1 })
  await expect(openRun('first')).resolves.toPass({ rate: 0.8 })
  // @ts-expect-error The rate is a number.
  expect(run).toPass({ rate: '0.8' })
})
`,
  ],
  [
    ['@osmosis/strands'],
    `
import { tool } from '@strands-agents/sdk'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { z } from 'zod'

const multiply = tool({
  name: 'multiply',
  description: 'Multiply two numbers.',
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  callback: ({ a, b }) => String(a * b),
})
export class Workflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const model = new OsmosisRolloutModel({ params: { temperature: 1 } })
    const agent = new OsmosisStrandsAgent({ name: 'a', model, tools: [multiply], messages: ctx.prompt })
    await agent.invoke()
  }
}
`,
  ],
  [
    ['@osmosis/ai-sdk'],
    `
import { generateText, isStepCount, streamText, tool } from 'ai'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { fromChatMessages, OsmosisToolLoopAgent, rolloutModel, toModelMessages } from '@osmosis/ai-sdk'
import { z } from 'zod'

const multiply = tool({
  description: 'Multiply two numbers.',
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => String(a * b),
})
export class Workflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const model = rolloutModel('main')
    const stopWhen = isStepCount(8)
    await generateText({ model, ...fromChatMessages(ctx.prompt), tools: { multiply }, stopWhen })
    await streamText({ model, ...fromChatMessages(ctx.prompt) }).text
    const agent = new OsmosisToolLoopAgent({ id: 'agent', model: rolloutModel(), tools: { multiply } })
    const { text } = await agent.generate({ messages: toModelMessages(ctx.prompt) })
    const said: string = text
    void said
  }
}
`,
  ],
  [
    ['@osmosis/langchain'],
    `
import { tool } from '@langchain/core/tools'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisChatModel } from '@osmosis/langchain'
import { z } from 'zod'

const multiply = tool(({ a, b }) => String(a * b), {
  name: 'multiply',
  description: 'Multiply two numbers.',
  schema: z.object({ a: z.number(), b: z.number() }),
})
const model = new OsmosisChatModel('main').bindTools([multiply])
const judge = new OsmosisChatModel({ name: 'judge', temperature: 0 })
export class Workflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const answer = await model.invoke('What is 2 times 3?', { signal: ctx.signal })
    const said: string = answer.text
    const Verdict = z.object({ right: z.boolean() })
    const { right } = await judge.withStructuredOutput(Verdict).invoke(said)
    const verdict: boolean = right
    void verdict
  }
}
`,
  ],
  [
    ['@osmosis/mastra'],
    `
import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { rolloutMemory, rolloutModel, toModelMessages } from '@osmosis/mastra'
import { z } from 'zod'

const multiply = createTool({
  id: 'multiply',
  description: 'Multiply two numbers.',
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => String(a * b),
})
const model = rolloutModel('agent')
const agent = new Agent({ id: 'agent', name: 'Agent', instructions: '', model, tools: { multiply } })
export class Workflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const options = { memory: rolloutMemory(), abortSignal: ctx.signal }
    const { text } = await agent.generate(toModelMessages(ctx.prompt), options)
    const said: string = text
    void said
  }
}
`,
  ],
  [
    ['@osmosis/google-adk'],
    `
import { FunctionTool, InMemoryRunner, LlmAgent } from '@google/adk'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisLlm, toNewMessage } from '@osmosis/google-adk'
import { z } from 'zod'

const multiply = new FunctionTool({
  name: 'multiply',
  description: 'Multiply two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a * b),
})
const agent = new LlmAgent({ name: 'main', model: new OsmosisLlm('main'), tools: [multiply] })
export class Workflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const newMessage = toNewMessage(ctx.prompt)
    for await (const event of new InMemoryRunner({ agent }).runEphemeral({ userId: 'u', newMessage })) {
      const said: string | undefined = event.content?.parts?.at(-1)?.text
      void said
    }
  }
}
`,
  ],
  [
    ['@osmosis/pi'],
    `
import { Agent } from '@earendil-works/pi-agent-core'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { rolloutStreamFn, toAgentMessages } from '@osmosis/pi'

export class Workflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const streamFn = rolloutStreamFn({ name: 'agent', params: { temperature: 1 } })
    const agent = new Agent({ streamFn, initialState: { systemPrompt: 'Be brief.' } })
    await agent.prompt(toAgentMessages(ctx.prompt))
    const failed: string | undefined = agent.state.errorMessage
    void failed
  }
}
`,
  ],
  [
    ['@osmosis/agent-loop'],
    `
import { createApp, RolloutAgentLoop } from '@osmosis/agent-loop'
import type { RolloutContext, RolloutResult, ToolInput } from '@osmosis/agent-loop'

export class Echo extends RolloutAgentLoop {
  readonly name = 'echo'
  getTools(): ToolInput[] {
    return []
  }
  async run(ctx: RolloutContext): Promise<RolloutResult> {
    const { message } = await ctx.chat(ctx.request.messages, ctx.request.completionParams)
    return ctx.complete([...ctx.request.messages, message])
  }
}
export const app = createApp(new Echo())
`,
  ],
]
