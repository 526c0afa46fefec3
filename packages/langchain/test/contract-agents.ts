import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
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

function graphOf(run: ContractRun, own: BaseChatModel = new OsmosisChatModel({ name: run.name })) {
  const tools = toolsOf(run)
  const model = own.bindTools?.(tools) ?? own
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
    maxRetries: 0,
  })

const modelOf = (name: string, url: string | undefined): BaseChatModel =>
  url === undefined ? new OsmosisChatModel(name) : chatModel(url)

const withFallback = ({ name }: ContractRun, url: string) =>
  new OsmosisChatModel({ name, fallback: () => chatModel(url) })

const common = {
  prepare(name: string) {
    const model = new OsmosisChatModel(name)
    return async () => model.invoke('go')
  },
  construct: (name: string) => new OsmosisChatModel(name),
  callPlaceholder: async () => new OsmosisChatModel().invoke('go'),
  exempt: { 'refuses-duplicates': 'models of one name are one sample' },
  concurrentRollouts: 2,
} satisfies Partial<AdapterUnderTest>

const schema = z.object({ sum: z.number() })

export const graph: AdapterUnderTest = {
  ...common,
  runTwoTurns: async (run, url) =>
    graphOf(run, modelOf(run.name, url)).invoke(inputOf(run), { recursionLimit: 4 }),
  runStructured: async ({ name, prompt }, url) =>
    modelOf(name, url).withStructuredOutput(schema).invoke(prompt),
  async run(run) {
    const { messages } = await graphOf(run).invoke(inputOf(run), configOf(run))
    return messages.at(-1)?.text ?? ''
  },
  async runWithFallback(run, url) {
    const { messages } = await graphOf(run, withFallback(run, url)).invoke(inputOf(run))
    return messages.at(-1)?.text ?? ''
  },
  async runOwnModel(run, url) {
    const { messages } = await graphOf(run, chatModel(url)).invoke(inputOf(run))
    return messages.at(-1)?.text ?? ''
  },
}

/** Tokens as they come: in this mode the model streams. */
export const streamedGraph: AdapterUnderTest = {
  ...graph,
  run: async (run) => saidBy(graphOf(run), run),
  leaveStream: async (run) =>
    leave(await graphOf(run).stream(inputOf(run), { streamMode: 'messages' })),
  runWithFallback: async (run, url) => saidBy(graphOf(run, withFallback(run, url)), run),
  runOwnModel: async (run, url) => saidBy(graphOf(run, chatModel(url)), run),
}

async function leave(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream) break
}

async function saidBy(runnable: ReturnType<typeof graphOf>, run: ContractRun): Promise<string> {
  const pieces = await runnable.stream(inputOf(run), { ...configOf(run), streamMode: 'messages' })
  let said = ''
  for await (const [piece] of pieces) said = piece.getType() === 'ai' ? said + piece.text : ''
  return said
}

export const agent: AdapterUnderTest = {
  ...common,
  async runTwoTurns(run, url) {
    const runnable = createAgent({ model: modelOf(run.name, url), tools: toolsOf(run) })
    return runnable.invoke(inputOf(run), { recursionLimit: 4 })
  },
  async runStructured(run, url) {
    const model = modelOf(run.name, url)
    const runnable = createAgent({ model, tools: [], responseFormat: schema })
    return (await runnable.invoke(inputOf(run))).structuredResponse
  },
  async run(run) {
    const runnable = createAgent({ model: new OsmosisChatModel(run.name), tools: toolsOf(run) })
    const { messages } = await runnable.invoke(inputOf(run), configOf(run))
    return messages.at(-1)?.text ?? ''
  },
  async runWithFallback(run, url) {
    const runnable = createAgent({ model: withFallback(run, url), tools: toolsOf(run) })
    const { messages } = await runnable.invoke(inputOf(run))
    return messages.at(-1)?.text ?? ''
  },
  async runOwnModel(run, url) {
    const runnable = createAgent({ model: chatModel(url), tools: toolsOf(run) })
    const { messages } = await runnable.invoke(inputOf(run))
    return messages.at(-1)?.text ?? ''
  },
}
