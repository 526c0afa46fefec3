import { tool } from '@langchain/core/tools'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { z } from 'zod'

const multiply = tool(({ a, b }) => String(a * b), {
  name: 'multiply',
  description: 'Multiply two integers.',
  schema: z.object({ a: z.number().int(), b: z.number().int() }),
})

function createGraph() {
  const model = new ChatOpenAI({
    model: 'gpt-4.1',
    temperature: 1,
    maxTokens: 4096,
    apiKey: String(process.env['MODEL_API_KEY']),
    configuration: { baseURL: process.env['MODEL_BASE_URL'] },
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

const messages = [{ role: 'user', content: 'What is 12 times 34?' }]
const state = await createGraph().invoke({ messages })
console.log(state.messages.at(-1)?.text)
