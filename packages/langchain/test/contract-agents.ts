import { tool, type StructuredToolInterface } from '@langchain/core/tools'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { OsmosisChatModel } from '@osmosis/langchain'
import type { AdapterUnderTest, ContractRun } from '@osmosis/testing'
import { createAgent } from 'langchain'
import { z } from 'zod'

function toolsOf({ tools = [] }: ContractRun): StructuredToolInterface[] {
  return tools.map(({ name, description, parameters, execute }) =>
    tool(async (input: unknown) => execute(input), { name, description, schema: parameters }),
  )
}

type State = typeof MessagesAnnotation.State

const next = ({ messages }: State): string =>
  (messages.at(-1) as { tool_calls?: object[] }).tool_calls?.length ? 'tools' : END

function graphOf(run: ContractRun, fallback?: ChatOpenAI) {
  const tools = toolsOf(run)
  const model = new OsmosisChatModel({ name: run.name, fallback }).bindTools(tools)
  return new StateGraph(MessagesAnnotation)
    .addNode('agent', async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
    .addNode('tools', new ToolNode(tools))
    .addEdge(START, 'agent')
    .addConditionalEdges('agent', next, ['tools', END])
    .addEdge('tools', 'agent')
    .compile()
}

const inputOf = ({ prompt }: ContractRun) => ({ messages: [{ role: 'user', content: prompt }] })
const configOf = ({ signal }: ContractRun) => (signal ? { signal } : {})

const chatModel = (baseURL: string) =>
  new ChatOpenAI({
    model: 'gpt-4.1',
    apiKey: 'key',
    configuration: { baseURL },
    useResponsesApi: false,
  })

const common = {
  construct: (name: string) => new OsmosisChatModel(name),
  callPlaceholder: async () => new OsmosisChatModel().invoke('go'),
  exempt: { 'refuses-duplicates': 'models of one name are one sample' },
  concurrentRollouts: 5,
} satisfies Partial<AdapterUnderTest>

const schema = z.object({ sum: z.number() })

export const graph: AdapterUnderTest = {
  ...common,
  runTwoTurns: async (run) => graphOf(run).invoke(inputOf(run), { recursionLimit: 4 }),
  runStructured: async ({ name, prompt }) =>
    new OsmosisChatModel(name).withStructuredOutput(schema).invoke(prompt),
  async run(run) {
    const { messages } = await graphOf(run).invoke(inputOf(run), configOf(run))
    return messages.at(-1)?.text ?? ''
  },
  async runWithFallback(run, url) {
    const { messages } = await graphOf(run, chatModel(url)).invoke(inputOf(run))
    return messages.at(-1)?.text ?? ''
  },
}

/** Tokens as they come: in this mode the model streams. */
export const streamedGraph: AdapterUnderTest = {
  ...graph,
  run: async (run) => saidBy(graphOf(run), run),
  runWithFallback: async (run, url) => saidBy(graphOf(run, chatModel(url)), run),
}

async function saidBy(runnable: ReturnType<typeof graphOf>, run: ContractRun): Promise<string> {
  const pieces = await runnable.stream(inputOf(run), { ...configOf(run), streamMode: 'messages' })
  let said = ''
  for await (const [piece] of pieces) said = piece.getType() === 'ai' ? said + piece.text : ''
  return said
}

export const agent: AdapterUnderTest = {
  ...common,
  async runTwoTurns(run) {
    const runnable = createAgent({ model: new OsmosisChatModel(run.name), tools: toolsOf(run) })
    return runnable.invoke(inputOf(run), { recursionLimit: 4 })
  },
  async runStructured(run) {
    const model = new OsmosisChatModel(run.name)
    return createAgent({ model, tools: [], responseFormat: schema }).invoke(inputOf(run))
  },
  async run(run) {
    const runnable = createAgent({ model: new OsmosisChatModel(run.name), tools: toolsOf(run) })
    const { messages } = await runnable.invoke(inputOf(run), configOf(run))
    return messages.at(-1)?.text ?? ''
  },
  async runWithFallback(run, url) {
    const model = new OsmosisChatModel({ name: run.name, fallback: chatModel(url) })
    const { messages } = await createAgent({ model, tools: toolsOf(run) }).invoke(inputOf(run))
    return messages.at(-1)?.text ?? ''
  },
}
