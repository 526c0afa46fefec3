import { tool } from '@langchain/core/tools'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { AgentWorkflow, type AgentWorkflowContext, requireRolloutContext } from '@osmosis/core'
import { z } from 'zod'

const multiply = tool(({ a, b }) => String(a * b), {
  name: 'multiply',
  description: 'Multiply two integers.',
  schema: z.object({ a: z.number().int(), b: z.number().int() }),
})

function createGraph() {
  const policy = requireRolloutContext('The calculator').registerPolicySample('calculator')
  const model = new ChatOpenAI({
    model: 'gpt-4.1',
    temperature: 1,
    maxTokens: 4096,
    apiKey: 'unused',
    configuration: { baseURL: policy.baseUrl, fetch: policy.fetch },
    maxRetries: 0,
    timeout: 2 ** 31 - 1,
  }).bindTools([multiply])
  const instructions = {
    role: 'system',
    content: 'Use the multiply tool when arithmetic is required.',
  }
  return new StateGraph(MessagesAnnotation)
    .addNode('agent', async ({ messages }) => ({
      messages: [await model.invoke([instructions, ...messages])],
    }))
    .addNode('tools', new ToolNode([multiply]))
    .addEdge(START, 'agent')
    .addConditionalEdges('agent', toolsCondition, ['tools', END])
    .addEdge('tools', 'agent')
    .compile()
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await createGraph().invoke({ messages: ctx.prompt }, { signal: ctx.signal })
  }
}
