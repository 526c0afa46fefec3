import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'

import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages'
import { StringOutputParser } from '@langchain/core/output_parsers'
import { ChatPromptTemplate } from '@langchain/core/prompts'
import { MemorySaver } from '@langchain/langgraph'
import { createReactAgent } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { OsmosisChatModel } from '@osmosis/langchain'
import { startPolicyServer } from '@osmosis/testing'
import {
  contextEditingMiddleware,
  createAgent,
  createMiddleware,
  llmToolSelectorMiddleware,
  providerStrategy,
  summarizationMiddleware,
  todoListMiddleware,
  toolStrategy,
} from 'langchain'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

import { HttpPeer, type PeerRequest, rolloutOn } from '../../../test/kit/index.ts'
import { add, go } from './rollout.ts'

/** OpenAI's API: it calls the first tool once, and then answers with JSON. */
class OpenAi extends HttpPeer {
  readonly requests: object[] = []

  protected override receive({ path, body }: PeerRequest, response: ServerResponse): void {
    // LangChain counts the tools for an output.
    this.requests.push({
      path,
      body: JSON.parse(JSON.stringify(body).replaceAll(/extract-\d+/g, 'extract')) as object,
    })
    if (body['stream'] === true) {
      const { message, ...choice } = choiceOf(body)
      const chunk = { id: '1', object: 'chat.completion.chunk', model: 'gpt-4.1' }
      const events = [{ ...chunk, choices: [{ ...choice, delta: message }] }]
      response.setHeader('content-type', 'text/event-stream')
      response.end(
        [...events.map((event) => JSON.stringify(event)), '[DONE]'].map(toEvent).join(''),
      )
      return
    }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(path.endsWith('/responses') ? theResponse : completionOf(body)))
  }
}

const toEvent = (data: string): string => `data: ${data}\n\n`

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }

const theResponse = {
  id: 'resp_1',
  object: 'response',
  model: 'gpt-4.1',
  status: 'completed',
  output: [
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Found.', annotations: [] }],
    },
  ],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
}

function completionOf(body: Record<string, unknown>): object {
  return { id: '1', object: 'chat.completion', model: 'gpt-4.1', choices: [choiceOf(body)], usage }
}

function choiceOf(body: Record<string, unknown>): { message: object; finish_reason: string } {
  const tools = (body['tools'] ?? []) as { function: { name: string } }[]
  const messages = body['messages'] as { role: string }[]
  const name = tools[0]?.function.name
  if (name !== undefined && !messages.some(({ role }) => role === 'tool')) {
    const called = { name, arguments: name === 'add' ? '{"a":1,"b":2}' : '{"sum":3,"todos":[]}' }
    const call = { index: 0, id: 'call_1', type: 'function', function: called }
    return { finish_reason: 'tool_calls', message: { role: 'assistant', tool_calls: [call] } }
  }
  const asked = JSON.stringify(body['response_format'] ?? null)
  const content = asked.includes('sum') ? '{"sum":3}' : '{"tools":["add"]}'
  return { finish_reason: 'stop', message: { role: 'assistant', content } }
}

const Sum = z.object({ sum: z.number() })
const long = Array.from({ length: 40 }, (_, n) => ({
  role: n % 2 === 0 ? 'user' : 'assistant',
  content: `${n} `.repeat(4000),
}))

interface Agent {
  invoke(input: object, config?: object): Promise<{ structuredResponse?: unknown }>
  stream(input: object, config?: object): Promise<AsyncIterable<unknown>>
  streamEvents(input: object, config: object): AsyncIterable<unknown>
}

/** Types of middleware are for another setting of the compiler than ours. */
const agentOf = (options: object): Agent => createAgent(options as never) as unknown as Agent

const input = { messages: go }
const webSearch = { type: 'web_search' }
const summaryAt = (model: BaseChatModel, trigger: object, keep: object): object =>
  summarizationMiddleware({ model, trigger, keep } as never)

async function read(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}

function withTools(model: BaseChatModel, tools: unknown[] = [add], settings = {}) {
  const bound = model.bindTools?.(tools as never, settings)
  assert(bound)
  return bound
}

/** Programs of users, each of a model. */
const programs: Readonly<Record<string, (model: BaseChatModel) => Promise<unknown>>> = {
  'a call': async (model) => model.invoke('go', { stop: ['x'] }),
  'a chain': async (model) =>
    ChatPromptTemplate.fromTemplate('{what}')
      .pipe(model)
      .pipe(new StringOutputParser())
      .invoke({ what: 'go' }),
  'calls at once': async (model) => model.batch(['go', 'go']),
  'a call of the older interface': async (model) => model.generate([[new HumanMessage('go')]]),
  'a stream': async (model) => read(await model.stream('go')),
  'a stream with tools': async (model) => read(await withTools(model).stream('go')),
  'events of a call': async (model) => read(model.streamEvents('go')),
  'events of a call with tools': async (model) =>
    read(withTools(model).streamEvents('go', { version: 'v2' })),
  'an agent with tools': async (model) =>
    agentOf({ model, tools: [add], systemPrompt: 'Add.' }).invoke(input),
  'an agent whose tokens are streamed': async (model) =>
    read(await agentOf({ model, tools: [add] }).stream(input, { streamMode: 'messages' })),
  'an agent whose events are streamed': async (model) =>
    read(agentOf({ model, tools: [add] }).streamEvents(input, { version: 'v2' })),
  'an agent with memory': async (model) => {
    const agent = agentOf({ model, tools: [add], checkpointer: new MemorySaver() })
    await agent.invoke(input, { configurable: { thread_id: 'thread' } })
    await agent.invoke(input, { configurable: { thread_id: 'thread' } })
  },
  'an agent with a response format': async (model) =>
    agentOf({ model, tools: [], responseFormat: Sum }).invoke(input),
  'an agent with a response format and tools': async (model) =>
    agentOf({ model, tools: [add], responseFormat: Sum }).invoke(input),
  'an agent with a tool for its response': async (model) =>
    agentOf({ model, tools: [], responseFormat: toolStrategy(Sum) }).invoke(input),
  'an agent with a provider strategy': async (model) =>
    agentOf({ model, tools: [], responseFormat: providerStrategy(Sum) }).invoke(input),
  'structured output': async (model) => model.withStructuredOutput(Sum).invoke('go'),
  'structured output by a function': async (model) =>
    model.withStructuredOutput(Sum, { method: 'functionCalling', name: 'sum' }).invoke('go'),
  'tools with strict arguments': async (model) =>
    withTools(model, [add], { strict: true, tool_choice: 'add' }).invoke('go'),
  'a tool that the provider executes': async (model) => withTools(model, [webSearch]).invoke('go'),
  'an agent with a tool that the provider executes': async (model) =>
    agentOf({ model, tools: [webSearch, add] }).invoke(input),
  'a summary at a fraction of the context': async (model) => {
    const middleware = [summaryAt(model, { fraction: 0.01 }, { fraction: 0.005 })]
    await agentOf({ model, tools: [], middleware }).invoke({ messages: long })
  },
  'a summary at a number of tokens': async (model) => {
    const middleware = [summaryAt(model, { tokens: 1000 }, { messages: 2 })]
    await agentOf({ model, tools: [], middleware }).invoke({ messages: long })
  },
  'a list of things to do': async (model) =>
    agentOf({ model, tools: [], middleware: [todoListMiddleware()] }).invoke(input),
  'a choice of tools': async (model) =>
    agentOf({ model, tools: [add], middleware: [llmToolSelectorMiddleware({} as never)] }).invoke(
      input,
    ),
  'settings of a middleware': async (model) => {
    const settings = createMiddleware({
      name: 'Settings',
      wrapModelCall: async (request, handler) =>
        handler({ ...request, modelSettings: { prompt_cache_key: 'key', seed: 3 } }),
    })
    await agentOf({ model, tools: [add], middleware: [settings] }).invoke(input)
  },
  'a prebuilt agent of LangGraph': async (model) =>
    createReactAgent({ llm: model, tools: [add], responseFormat: Sum }).invoke(input),
  'a context whose tokens the model counts': async (model) => {
    const middleware = [contextEditingMiddleware({ tokenCountMethod: 'model' } as never)]
    const calls = ['1', '2', '3', '4', '5'].flatMap((id) => [
      new AIMessage({ content: '', tool_calls: [{ id, name: 'add', args: { a: 1, b: 2 } }] }),
      new ToolMessage({ content: 'sum: 3', tool_call_id: id }),
    ])
    await agentOf({ model, tools: [add], middleware }).invoke({ messages: [...go, ...calls] })
  },
}

class Counting extends ChatOpenAI {
  override getNumTokensFromMessages: ChatOpenAI['getNumTokensFromMessages'] = async () => ({
    totalCount: 200_000,
    countPerMessage: [],
  })
}

const own = (url: string, Model = ChatOpenAI): ChatOpenAI =>
  new Model({
    model: 'gpt-4.1',
    apiKey: 'key',
    temperature: 0.5,
    configuration: { baseURL: `${url}/v1` },
    maxRetries: 0,
  })

describe('outside of rollouts, a model with a fallback sends the requests of the fallback alone:', () => {
  it.each(Object.entries(programs))('%s', async (_what, program) => {
    await using server = await new OpenAi().start()
    await program(own(server.url, Counting))
    const expected = server.requests.splice(0)
    expect(expected).not.toEqual([])
    await program(new OsmosisChatModel({ name: 'main', fallback: () => own(server.url, Counting) }))
    expect(server.requests).toEqual(expected)
  })
})

it('outside of rollouts a model shows its fallback, and inside the policy', async () => {
  const fallback = new ChatOpenAI({ model: 'gpt-4.1', apiKey: 'key' })
  const model = new OsmosisChatModel({ fallback, profile: { maxInputTokens: 8192 } })
  const shown = () => ({
    profile: model.profile,
    name: model.getName(),
    // oxlint-disable-next-line no-underscore-dangle -- LangChain has no other name for it
    type: model._llmType(),
    model: model.model,
    provider: model.getLsParams({ stop: [] }).ls_provider,
    params: model.invocationParams(),
  })
  expect(shown()).toEqual({
    profile: fallback.profile,
    name: 'ChatOpenAI',
    type: 'openai',
    model: 'gpt-4.1',
    provider: 'openai',
    params: fallback.invocationParams(),
  })
  await using server = await startPolicyServer([])
  expect(rolloutOn(server).run(shown)).toEqual({
    profile: { maxInputTokens: 8192 },
    name: 'OsmosisChatModel',
    type: 'osmosis',
    model: undefined,
    provider: 'osmosis',
    params: {},
  })
})

it('a call outside of rollouts is one run, with the name of the fallback', async () => {
  await using server = await new OpenAi().start()
  const runs: unknown[] = []
  const callbacks = [
    {
      handleChatModelStart: (...[{ id }]: [{ id: string[] }]) => void runs.push(id.at(-1)),
      handleLLMEnd: () => void runs.push('end'),
    },
  ]
  const model = new OsmosisChatModel({ name: 'main', fallback: own(server.url) })
  await model.invoke('go', { callbacks: callbacks as never })
  for await (const _ of await model.stream('go', { callbacks: callbacks as never }));
  expect(runs).toEqual(['ChatOpenAI', 'end', 'ChatOpenAI', 'end'])
})

describe('a function as fallback', () => {
  it('is called once, and not where rollouts run', async () => {
    await using server = await new OpenAi().start()
    await using policy = await startPolicyServer(() => '{"sum":3}')
    let made = 0
    const fallback = (): ChatOpenAI => {
      made += 1
      return own(server.url)
    }
    const model = new OsmosisChatModel({ name: 'main', fallback })
    const agent = agentOf({ model, tools: [], responseFormat: Sum })
    const bound = model.bindTools([add])
    const structured = model.withStructuredOutput(Sum)
    const chain = model.pipe(new StringOutputParser())
    await rolloutOn(policy).run(async () => {
      await bound.invoke('go')
      await structured.invoke('go')
      await chain.invoke('go')
    })
    expect({ made, requests: policy.requests.length }).toEqual({ made: 0, requests: 3 })
    await agent.invoke(input)
    await bound.invoke('go')
    await structured.invoke('go')
    await chain.invoke('go')
    expect(made).toBe(1)
    expect([server.requests.length, policy.requests.length]).toEqual([4, 3])
  })

  it('that throws is called again', async () => {
    await using server = await new OpenAi().start()
    let calls = 0
    const model = new OsmosisChatModel({
      fallback: () => {
        calls += 1
        if (calls === 1) throw new Error('no key')
        return own(server.url)
      },
    })
    await expect(model.invoke('go')).rejects.toThrow('no key')
    await model.invoke('go')
    expect(server.requests).toHaveLength(1)
  })
})

describe('in a rollout', () => {
  it('a tool that the provider of the fallback executes is refused', async () => {
    const fallback = (): ChatOpenAI => own('http://127.0.0.1:1')
    const model = new OsmosisChatModel({ name: 'main', fallback })
    const bound = model.bindTools([webSearch])
    await using server = await startPolicyServer([])
    const refused = { code: 'invalid_request', message: expect.stringContaining('web_search') }
    await rolloutOn(server).run(async () => {
      await expect(bound.invoke('go')).rejects.toMatchObject(refused)
      expect(() => model.bindTools([webSearch])).toThrow(expect.objectContaining(refused))
    })
  })

  it('a profile lets a response format be JSON, and a summary be due at a fraction', async () => {
    await using server = await startPolicyServer(() => '{"sum":3}')
    const profile = { structuredOutput: true, maxInputTokens: 1000 }
    const model = new OsmosisChatModel({ name: 'main', profile })
    const middleware = [summaryAt(model, { fraction: 0.5 }, { fraction: 0.1 })]
    await rolloutOn(server).run(async () => {
      const agent = agentOf({ model, tools: [], responseFormat: Sum, middleware })
      const { structuredResponse } = await agent.invoke({ messages: long })
      expect(structuredResponse).toEqual({ sum: 3 })
    })
    const [summary, answer] = server.requests.map(({ body }) => body)
    expect(summary).not.toHaveProperty('response_format')
    expect(answer).toMatchObject({ response_format: { type: 'json_schema' } })
    expect(answer).not.toHaveProperty('tools')
  })
})
