import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from '@langchain/core/messages'
import type { RolloutSample } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { OsmosisChatModel } from '@osmosis/langchain'
import { fault, type Reply, startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import { messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'

type Ask = (model: OsmosisChatModel, messages: BaseMessage[]) => Promise<BaseMessage>

/** Every way in which LangChain makes a message of an answer. */
const ways: Record<string, Ask> = {
  invoke: async (model, messages) => model.invoke(messages),
  async stream(model, messages) {
    let whole: BaseMessage | undefined
    for await (const chunk of await model.stream(messages)) {
      whole = whole === undefined ? chunk : (whole as typeof chunk).concat(chunk)
    }
    if (whole === undefined) throw new Error('an empty stream')
    return whole
  },
  'invoke as standard content': async (model, messages) =>
    model.invoke(messages, { outputVersion: 'v1' }),
  events: async (model, messages) => model.streamEvents(messages),
}

/** Asks twice: the second time with the first answer, and a result for each call that LangChain would execute. */
async function conversation(
  ask: Ask,
  reply: Reply,
): Promise<{ answer: BaseMessage; requests: ChatMessage[][]; sample: RolloutSample }> {
  await using server = await startPolicyServer([reply, 'done'])
  const rollout = rolloutOn(server)
  const model = new OsmosisChatModel('main')
  const answer = await rollout.run(async () => {
    const first = await ask(model, [new HumanMessage('go')])
    const { tool_calls = [] } = first as AIMessage
    const results = tool_calls.map(
      ({ id = '' }) => new ToolMessage({ tool_call_id: id, content: 'ok' }),
    )
    await ask(model, [new HumanMessage('go'), first, ...results, new HumanMessage('on')])
    return first
  })
  const sample = await sampleOf(rollout)
  return { answer, requests: server.requests.map(messagesOf), sample }
}

const call = (id: string, args: string) => ({ id, name: 'add', arguments: args })

test('an answer is what LangChain makes of it with its own models, except for malformed calls', async () => {
  const { answer, sample } = await conversation(ways['invoke'] as Ask, {
    content: 'Adding.',
    reasoning: 'Add.',
    toolCalls: [call('c1', '{"a": 1.0}'), call('c2', 'no JSON'), call('c3', '')],
    finishReason: 'tool_calls',
    usage: { promptTokens: 5, completionTokens: 3 },
  })
  expect(answer).toBeInstanceOf(AIMessage)
  expect(answer).toMatchObject({
    content: 'Adding.',
    tool_calls: [
      { type: 'tool_call', id: 'c1', name: 'add', args: { a: 1 } },
      { type: 'tool_call', id: 'c2', name: 'add_with_malformed_arguments', args: {} },
      { type: 'tool_call', id: 'c3', name: 'add', args: {} },
    ],
    invalid_tool_calls: [],
    additional_kwargs: { reasoning_content: 'Add.' },
    response_metadata: { finish_reason: 'tool_calls', model_name: expect.any(String) },
    usage_metadata: { input_tokens: 5, output_tokens: 3, total_tokens: 8 },
  })
  // The grader sees the same, in the form that LangChain takes instead of its classes.
  expect(sample.messages.slice(0, 2)).toMatchObject([
    { role: 'user', content: 'go' },
    {
      role: 'assistant',
      content: 'Adding.',
      tool_calls: [{ id: 'c1', args: { a: 1 } }, { id: 'c2', args: {} }, { id: 'c3' }],
      additional_kwargs: { reasoning_content: 'Add.' },
    },
  ])
})

test.each(Object.entries(ways))(
  'arguments that break off are not completed, by %s',
  async (_way, ask) => {
    const { answer } = await conversation(ask, { toolCalls: [call('c1', '{"a": 1, "b": 2')] })
    expect(answer).toMatchObject({
      tool_calls: [{ name: 'add_with_malformed_arguments', args: {} }],
      invalid_tool_calls: [],
    })
  },
)

test('a refusal returns as one', async () => {
  const refused = [
    { index: 0, delta: { role: 'assistant', refusal: 'I will ' }, finish_reason: null },
    { index: 0, delta: { refusal: 'not.' }, finish_reason: 'stop' },
  ]
  const raw = [...refused.map((choice) => JSON.stringify({ choices: [choice] })), '[DONE]']
    .map((line) => `data: ${line}\n\n`)
    .join('')
  for (const way of ['invoke', 'stream']) {
    const { answer, requests } = await conversation(ways[way] as Ask, fault.raw(raw))
    expect(answer.additional_kwargs['refusal']).toBe('I will not.')
    expect(requests[1]?.[1]).toMatchObject({ role: 'assistant', refusal: 'I will not.' })
  }
})

test('pieces of a stream come as the policy writes them, and usage at the end', async () => {
  await using server = await startPolicyServer([
    { reasoning: 'Hm.', content: 'one two three', toolCalls: [call('c1', '{"a":1}')] },
  ])
  await rolloutOn(server).run(async () => {
    const chunks = []
    for await (const chunk of await new OsmosisChatModel().stream('go')) chunks.push(chunk)
    expect(chunks.length).toBeGreaterThan(3)
    expect(chunks.map(({ text }) => text).join('')).toBe('one two three')
    expect(chunks.at(-1)).toMatchObject({ usage_metadata: { total_tokens: expect.any(Number) } })
    expect(chunks.filter(({ usage_metadata }) => usage_metadata !== undefined)).toHaveLength(1)
  })
})
