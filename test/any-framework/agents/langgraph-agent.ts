import { HumanMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { requireRolloutContext } from '@osmosis/core'
import type { ContractRun } from '@osmosis/testing'

function graphOf({ name, tools = [] }: ContractRun) {
  const policy = requireRolloutContext('The agent').registerPolicySample(name)
  const model = new ChatOpenAI({
    model: 'policy',
    apiKey: 'unused',
    maxRetries: 0,
    configuration: { baseURL: policy.baseUrl, fetch: policy.fetch },
  })
  const known = tools.map(({ name: toolName, description, parameters, execute }) =>
    tool(async (input: unknown) => execute(input), {
      name: toolName,
      description,
      schema: parameters,
    }),
  )
  const bound = known.length > 0 ? model.bindTools(known) : model
  return new StateGraph(MessagesAnnotation)
    .addNode('agent', async ({ messages }) => ({ messages: [await bound.invoke(messages)] }))
    .addNode('tools', new ToolNode(known))
    .addEdge(START, 'agent')
    .addConditionalEdges('agent', toolsCondition, ['tools', END])
    .addEdge('tools', 'agent')
    .compile()
}

export async function langGraph(run: ContractRun): Promise<string> {
  const { messages } = await graphOf(run).invoke(
    { messages: [new HumanMessage(run.prompt)] },
    run.signal ? { signal: run.signal } : {},
  )
  return messages.at(-1)?.text ?? ''
}

/** Tokens as they come: in this mode the model streams. */
export async function langGraphStream(run: ContractRun): Promise<string> {
  const graph = graphOf(run)
  const pieces = await graph.stream(
    { messages: [new HumanMessage(run.prompt)] },
    { ...(run.signal ? { signal: run.signal } : {}), streamMode: 'messages' },
  )
  let said = ''
  for await (const [piece] of pieces) said = piece.getType() === 'ai' ? said + piece.text : ''
  return said
}
