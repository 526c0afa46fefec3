import { AgentWorkflow, requireRolloutContext, type AgentWorkflowContext } from '@osmosis/core'
import { OpenAIChatModel } from 'beeai-framework/adapters/openai/backend/chat'
import { RequirementAgent } from 'beeai-framework/agents/requirement/agent'
import { UnconstrainedMemory } from 'beeai-framework/memory/unconstrainedMemory'
import { DynamicTool, StringToolOutput } from 'beeai-framework/tools/base'
import { z } from 'zod'

const multiply = new DynamicTool({
  name: 'multiply',
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  handler: async ({ a, b }) => new StringToolOutput(String(a * b)),
})

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const policy = requireRolloutContext('The agent').registerPolicySample('calculator')
    const { baseUrl: baseURL, fetch } = policy
    const llm = new OpenAIChatModel(
      'policy',
      { temperature: 1 },
      { baseURL, fetch, apiKey: 'unused' },
    )
    const agent = new RequirementAgent({
      llm,
      memory: new UnconstrainedMemory(),
      tools: [multiply],
    })
    const prompt = ctx.prompt.map(({ content }) => String(content)).join('\n')
    await agent.run({ prompt }, { signal: ctx.signal })
  }
}
