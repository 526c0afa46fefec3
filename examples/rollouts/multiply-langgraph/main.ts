import { tool } from '@langchain/core/tools'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { OsmosisChatModel } from '@osmosis/langchain'
import { z } from 'zod'

const multiply = tool(({ a, b }) => String(a * b), {
  name: 'multiply',
  description: 'Multiply two numbers.',
  schema: z.object({ a: z.number(), b: z.number() }),
})

const model = new OsmosisChatModel({
  name: 'multiply-agent',
  temperature: 1,
  topP: 1,
  maxTokens: 4096,
}).bindTools([multiply])

const instructions = {
  role: 'system',
  content: 'Use the multiply tool when arithmetic is required.',
}

const graph = new StateGraph(MessagesAnnotation)
  .addNode('agent', async ({ messages }) => ({
    messages: [await model.invoke([instructions, ...messages])],
  }))
  .addNode('tools', new ToolNode([multiply]))
  .addEdge(START, 'agent')
  .addConditionalEdges('agent', toolsCondition, ['tools', END])
  .addEdge('tools', 'agent')
  .compile()

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await graph.invoke({ messages: ctx.prompt }, { signal: ctx.signal, recursionLimit: 16 })
  }
}

export class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const [sampleId, sample] of ctx.samples) {
      const [, answer = ''] = /####\s*([-+]?\d*\.?\d+)/.exec(lastAssistantText(sample)) ?? []
      const error = Math.abs(parseFloat(answer) - parseFloat(ctx.requireLabel()))
      ctx.setSampleReward(sampleId, error < 0.01 ? 1 : 0)
    }
  }
}
