import { tool } from '@langchain/core/tools'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import type { PromptMessage } from '@osmosis/core'
import { OsmosisChatModel } from '@osmosis/langchain'
import { fault, type ReceivedRequest, startPolicyServer } from '@osmosis/testing'
import { createAgent, providerStrategy, toolStrategy } from 'langchain'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

import {
  callAdd,
  execute,
  messagesOf,
  rolloutOn,
  sampleIds,
  sampleOf,
} from '../../../test/kit/index.ts'
import { add, go, rolesOf } from './rollout.ts'

const Sum = z.object({ sum: z.number() })

describe('createAgent', () => {
  it('sends the prompt of a row as it is, with thinking, refusals and numbers', async () => {
    const written = '{"a": 1.0, "b": 12345678901234567890, "c": -0}'
    const prompt: PromptMessage[] = [
      { role: 'system', content: 'Add.' },
      { role: 'user', content: '1 and 2?' },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'Both are numbers.',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'add', arguments: written } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'sum: 3' },
      { role: 'assistant', content: 'It is 3.', reasoning_content: 'Easy.' },
      { role: 'user', content: 'And the key?' },
      { role: 'assistant', content: '', refusal: 'I keep it.' },
      { role: 'user', content: 'Again: 1 and 2?' },
    ]
    await using server = await startPolicyServer([callAdd, 'Still 3.'])
    const agent = createAgent({ model: new OsmosisChatModel('main'), tools: [add] })
    await execute(server, async (ctx) => agent.invoke({ messages: ctx.prompt }), { prompt })
    const sent = server.requests.map((request) => messagesOf(request).slice(0, prompt.length))
    expect(sent).toEqual([prompt, prompt])
  })

  it('sends calls of a row whose arguments are an object, and refuses those of no function', async () => {
    const made = (call: object): PromptMessage[] => [
      { role: 'user', content: '1 and 2?' },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c1', ...call }] },
      { role: 'tool', tool_call_id: 'c1', content: 'sum: 3' },
    ]
    const called = { name: 'add', arguments: { a: 1, b: 2 } }
    await using server = await startPolicyServer(['It is 3.'])
    const agent = createAgent({ model: new OsmosisChatModel('main'), tools: [add] })
    const run = async (prompt: PromptMessage[]) =>
      execute(server, async (ctx) => agent.invoke({ messages: ctx.prompt }), { prompt })
    await run(made({ type: 'function', function: called }))
    expect(messagesOf(server.requests[0])).toEqual(
      made({ type: 'function', function: { name: 'add', arguments: '{"a":1,"b":2}' } }),
    )
    const { workflow } = await run(made({ type: 'custom', custom: { name: 'add', input: '1' } }))
    expect(workflow.failure?.message).toContain('A tool call of the type "custom" in an AIMessage')
    expect(server.requests).toHaveLength(1)
  })

  it('records the conversation of its last call, in the form that LangChain takes back', async () => {
    await using server = await startPolicyServer([callAdd, 'It is 3.', 'Again.'])
    const rollout = rolloutOn(server)
    const agent = createAgent({
      model: new OsmosisChatModel('main'),
      tools: [add],
      systemPrompt: 'Add.',
      name: 'adder',
    })
    const { messages } = await rollout.run(async () => agent.invoke({ messages: go }))
    const sample = await sampleOf(rollout)
    expect(rolesOf(sample)).toEqual(['system', 'user', 'assistant', 'tool', 'assistant'])
    expect(sample.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'It is 3.' })
    expect(sample.messages.at(-2)).toMatchObject({ tool_call_id: 'call-1', content: 'sum: 3' })

    // A second conversation that starts from the messages of the first one extends it.
    await rollout.run(async () =>
      agent.invoke({ messages: [...messages, { role: 'user', content: 'again' }] }),
    )
    const { calls } = await sampleOf(rollout)
    expect(calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, true, true])
  })

  it.each([
    [
      'a schema alone',
      () => createAgent({ model: new OsmosisChatModel('main'), responseFormat: Sum }),
    ],
    [
      'toolStrategy',
      () => createAgent({ model: new OsmosisChatModel('main'), responseFormat: toolStrategy(Sum) }),
    ],
  ])('with %s as its response format asks for a tool call', async (_what, create) => {
    await using server = await startPolicyServer((request) => {
      const [{ function: called } = { function: { name: '' } }] = (request.body['tools'] ?? []) as {
        function: { name: string }
      }[]
      return { toolCalls: [{ name: called.name, arguments: '{"sum": 3}' }] }
    })
    await rolloutOn(server).run(async () => {
      const { structuredResponse } = await create().invoke({ messages: go })
      expect(structuredResponse).toEqual({ sum: 3 })
    })
  })

  it('with providerStrategy as its response format asks for JSON of a schema', async () => {
    await using server = await startPolicyServer([callAdd, '{"sum": 3}'])
    await rolloutOn(server).run(async () => {
      const agent = createAgent({
        model: new OsmosisChatModel('main'),
        tools: [add],
        responseFormat: providerStrategy(Sum),
      })
      const { structuredResponse } = await agent.invoke({ messages: go })
      expect(structuredResponse).toEqual({ sum: 3 })
    })
    expect(server.requests[0]?.body).toMatchObject({
      tools: [{ function: { name: 'add' } }],
      response_format: {
        type: 'json_schema',
        json_schema: { schema: { properties: { sum: { type: 'number' } } } },
      },
    })
  })
})

it('subgraphs with models of their own have samples of their own', async () => {
  await using server = await startPolicyServer(
    ({ headers }) => `I am ${String(headers['x-sample-id'])}`,
  )
  const nodeOf = (name: string) => {
    const model = new OsmosisChatModel(name)
    return async ({ messages }: typeof MessagesAnnotation.State) => ({
      messages: [await model.invoke(messages)],
    })
  }
  const critic = new StateGraph(MessagesAnnotation)
    .addNode('critic', nodeOf('critic'))
    .addEdge(START, 'critic')
    .addEdge('critic', END)
    .compile()
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('writer', nodeOf('writer'))
    .addNode('review', critic)
    .addEdge(START, 'writer')
    .addEdge('writer', 'review')
    .addEdge('review', END)
    .compile()
  const rollout = rolloutOn(server)
  await rollout.run(async () => graph.invoke({ messages: go }))
  expect(sampleIds(server)).toEqual(['writer', 'critic'])
  expect((await sampleOf(rollout, 'critic')).messages).toMatchObject([
    { role: 'user', content: 'go' },
    { role: 'assistant', content: 'I am writer' },
    { role: 'assistant', content: 'I am critic' },
  ])
})

function supervised() {
  const helper = createAgent({ model: new OsmosisChatModel('helper') })
  const ask = tool(
    async ({ question }) => {
      const { messages } = await helper.invoke({ messages: [{ role: 'user', content: question }] })
      return messages.at(-1)?.text ?? ''
    },
    { name: 'ask', description: 'Asks a helper.', schema: z.object({ question: z.string() }) },
  )
  return createAgent({ model: new OsmosisChatModel('main'), tools: [ask] })
}

/** The agent asks its helper twice, one question after the other. */
function askTwice(request: ReceivedRequest) {
  if (request.headers['x-sample-id'] === 'helper') return 'an answer'
  const asked = messagesOf(request).filter(({ role }) => role === 'tool').length
  if (asked === 2) return 'done'
  return { toolCalls: [{ name: 'ask', arguments: { question: `question ${asked + 1}` } }] }
}

it('an agent that is called twice as a tool keeps both conversations', async () => {
  await using server = await startPolicyServer(askTwice)
  const rollout = rolloutOn(server)
  await rollout.run(async () => supervised().invoke({ messages: go }))
  const helper = await sampleOf(rollout, 'helper')
  expect(helper.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, false])
  expect(helper.messages).toMatchObject([{ content: 'question 2' }, { content: 'an answer' }])
  expect(helper.extraFields).toMatchObject({
    other_conversations: [[{ content: 'question 1' }, { content: 'an answer' }]],
  })
})

it('an agent that fails in a tool fails the rollout, whatever is made of its error', async () => {
  await using server = await startPolicyServer((request) =>
    request.headers['x-sample-id'] === 'helper' ? fault.status(400) : askTwice(request),
  )
  const { workflow } = await execute(server, async () =>
    supervised()
      .invoke({ messages: go })
      .catch(() => {}),
  )
  expect(workflow).toMatchObject({
    failure: { category: 'http_error', message: expect.stringContaining('answered 400') },
  })
})

it('a call that a later one of the sample makes up for does not fail the rollout', async () => {
  await using server = await startPolicyServer([fault.status(400), 'done'])
  const { workflow } = await execute(server, async () =>
    new OsmosisChatModel('main').withRetry({ stopAfterAttempt: 2 }).invoke('go'),
  )
  expect(workflow.status).toBe('success')
})
