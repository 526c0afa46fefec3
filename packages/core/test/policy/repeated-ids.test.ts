import { type PolicyClient, RolloutContext, toRolloutSample } from '@osmosis/core'
import type { ChatMessage, ChatToolCall } from '@osmosis/core/policy'
import { expect, it } from 'vitest'

import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

const prompt: ChatMessage = { role: 'user', content: 'go' }

function call(id: string, written: string, more: object = {}): ChatToolCall {
  return { id, type: 'function', function: { name: 'f', arguments: written }, ...more }
}

async function conversation(...answers: Record<string, unknown>[]) {
  const policy = await startPolicyEndpoint((response, n) =>
    sendStream(response, answerStream(answers[n - 1] ?? 'done')),
  )
  const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
  rollout.registerSampleSource('main', { getSample: (id) => toRolloutSample({ id, messages: [] }) })
  const sent = (n: number): ChatMessage[] => [...(policy.requests[n - 1]?.body.messages ?? [])]
  return { client: rollout.policy('main'), rollout, sent }
}

async function answerTo(client: PolicyClient, messages: ChatMessage[]): Promise<ChatMessage> {
  const { choices } = await client.complete({ messages })
  return choices[0]?.message ?? prompt
}

function resultsOf({ tool_calls: calls = [] }: ChatMessage, text: string): ChatMessage[] {
  return calls.map(({ id }, at) => ({ role: 'tool', tool_call_id: id, content: `${text} ${at}` }))
}

it('an id of an earlier turn is another for the agent, and the own one for the policy', async () => {
  const turns = [1, 2, 3].map((n) => ({ tool_calls: [call('call_0', `{"n": ${n}}`)] }))
  const { client, rollout, sent } = await conversation(...turns)
  const messages = [prompt]
  const ids: string[] = []
  for (let n = 1; n <= 3; n += 1) {
    const said = await answerTo(client, [...messages])
    ids.push(...(said.tool_calls ?? []).map(({ id }) => id))
    messages.push(JSON.parse(JSON.stringify(said)) as ChatMessage, ...resultsOf(said, `turn ${n}`))
  }
  await answerTo(client, messages)
  expect(new Set(ids).size).toBe(3)
  expect(ids[0]).toBe('call_0')
  const expected = [1, 2, 3].flatMap((n) => [
    { role: 'assistant', content: null, tool_calls: [call('call_0', `{"n": ${n}}`)] },
    { role: 'tool', tool_call_id: 'call_0', content: `turn ${n} 0` },
  ])
  expect(sent(4)).toEqual([prompt, ...expected])
  const sample = (await rollout.getSamples()).get('main')
  expect(sample?.trajectoryMessages?.slice(0, -1)).toEqual([prompt, ...expected])
  expect(sample?.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual(Array(4).fill(true))
})

it('calls of one id within an answer have ids of their own', async () => {
  const said = { tool_calls: ['1', '2', '3'].map((n) => call('a', `{"n":${n}}`)) }
  const { client, sent } = await conversation(said)
  const answer = await answerTo(client, [prompt])
  expect(new Set(answer.tool_calls?.map(({ id }) => id)).size).toBe(3)
  await answerTo(client, [prompt, answer, ...resultsOf(answer, 'r')])
  expect(sent(2)).toEqual([
    prompt,
    { role: 'assistant', content: null, ...said },
    ...['r 0', 'r 1', 'r 2'].map((content) => ({ role: 'tool', tool_call_id: 'a', content })),
  ])
})

it('an id that the prompt has is another for the agent', async () => {
  const example: ChatMessage[] = [
    { role: 'assistant', content: null, tool_calls: [call('call_0', '{}')] },
    { role: 'tool', tool_call_id: 'call_0', content: 'example' },
    prompt,
  ]
  const { client, sent } = await conversation({ tool_calls: [call('call_0', '{"a":1}')] })
  const answer = await answerTo(client, example)
  expect(answer.tool_calls?.[0]?.id).not.toBe('call_0')
  await answerTo(client, [...example, answer, ...resultsOf(answer, 'r')])
  expect(sent(2).at(-1)).toEqual({ role: 'tool', tool_call_id: 'call_0', content: 'r 0' })
})

it('the same answer to the same request again is known by its ids, in either conversation', async () => {
  const said = { reasoning_content: 'hm', tool_calls: [call('c', '{ "a": 1 }')] }
  const { client, sent } = await conversation(said, said)
  const [first, second] = [await answerTo(client, [prompt]), await answerTo(client, [prompt])]
  for (const [at, answer] of [first, second].entries()) {
    const echo = { ...answer, reasoning_content: '' }
    await answerTo(client, [prompt, echo, ...resultsOf(answer, 'r')])
    expect(sent(3 + at)).toEqual([
      prompt,
      { role: 'assistant', content: null, ...said },
      { role: 'tool', tool_call_id: 'c', content: 'r 0' },
    ])
  }
})

it('answers to one request that differ in malformed arguments are recorded each as it is', async () => {
  const [first, second] = ['{"n": 1', '{"n": 2'].map((text) => ({
    tool_calls: [call('call_0', text)],
  }))
  const { client, rollout, sent } = await conversation(first ?? {}, second ?? {})
  await answerTo(client, [prompt])
  const again = await answerTo(client, [prompt])
  await answerTo(client, [prompt, again, ...resultsOf(again, 'r')])
  expect(sent(3)[1]).toMatchObject({ tool_calls: [call('call_0', '{}')] })
  const sample = (await rollout.getSamples()).get('main')
  const said = (answer: object | undefined) => ({ role: 'assistant', content: null, ...answer })
  expect(sample?.trajectoryMessages?.slice(0, 2)).toEqual([prompt, said(second)])
  expect(sample?.extraFields).toEqual({
    other_conversations: [[prompt, said(first)]],
    history_rewritten: true,
  })
  expect(sample?.calls.map(({ answerIndex }) => answerIndex)).toEqual([null, 1, 3])
  expect(sample?.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, false, true])
})

it('a turn that the agent edited has the ids of the policy', async () => {
  const { client, sent } = await conversation(
    { tool_calls: [call('call_0', '{"a":1}')] },
    { tool_calls: [call('call_0', '{"a":2}')] },
  )
  const first = await answerTo(client, [prompt])
  const history = [prompt, first, ...resultsOf(first, 'r')]
  const second = await answerTo(client, history)
  const edited = {
    ...second,
    tool_calls: second.tool_calls?.map(({ id }) => call(id, '{"a":7}')) ?? [],
  }
  await answerTo(client, [...history, edited, ...resultsOf(edited, 's')])
  expect(sent(3).slice(3)).toEqual([
    { role: 'assistant', content: null, tool_calls: [call('call_0', '{"a":7}')] },
    { role: 'tool', tool_call_id: 'call_0', content: 's 0' },
  ])
})

it('a name that no tool has is harmless for the agent, and goes back word for word', async () => {
  for (const name of [
    '__proto__',
    'constructor',
    'a b',
    'get.weather',
    '<|x|>',
    'ä',
    'x'.repeat(80),
    '',
  ]) {
    const said = { ...call('c', '{"a":1}'), function: { name, arguments: '{"a":1}' } }
    const { client, sent } = await conversation({ tool_calls: [said] })
    const answer = await answerTo(client, [prompt])
    const shown = answer.tool_calls?.[0]?.function.name ?? ''
    expect(shown).toMatch(/^[\w-]{1,64}$/)
    expect(shown in Object.prototype).toBe(false)
    const result = { role: 'tool', tool_call_id: 'c', content: `Unknown tool: ${shown}.` }
    await answerTo(client, [prompt, answer, result])
    expect(sent(2).slice(1)).toEqual([
      { role: 'assistant', content: null, tool_calls: [said] },
      { ...result, content: `Unknown tool: ${name}.` },
    ])
  }
})

it('a call that names no tool at all is one of a tool that nobody offered', async () => {
  const { client, sent } = await conversation({
    tool_calls: [{ id: 'c', type: 'function', function: { arguments: '{}' } }],
  })
  const answer = await answerTo(client, [prompt])
  expect(answer.tool_calls).toMatchObject([{ function: { name: 'unknown_tool_1' } }])
  await answerTo(client, [prompt, answer, { role: 'tool', tool_call_id: 'c', content: 'no' }])
  expect(sent(2)[1]).toMatchObject({ tool_calls: [{ function: { name: '', arguments: '{}' } }] })
})

it('a tool that the request offers keeps its name, unless every object has such a key', async () => {
  const { client } = await conversation({
    tool_calls: ['fs.read', 'valueOf'].map((name) => ({
      ...call(name, '{}'),
      function: { name, arguments: '{}' },
    })),
  })
  const tools = ['fs.read', 'valueOf'].map((name) => ({ type: 'function', function: { name } }))
  const { choices } = await client.complete({ messages: [prompt], tools })
  const names = choices[0]?.message.tool_calls?.map((made) => made.function.name)
  expect(names).toEqual(['fs.read', 'unknown_tool_1'])
})

it('fields that the SDK does not know go back with their message and their call', async () => {
  const details = [{ type: 'reasoning.text', text: 'hm', index: 0, signature: 's' }]
  const extra = { google: { thought_signature: 'SIG' } }
  const said = {
    reasoning_details: details,
    tool_calls: [call('c', '{ }', { extra_content: extra })],
  }
  const { client, sent } = await conversation(said)
  const answer = await answerTo(client, [prompt])
  await answerTo(client, [
    prompt,
    { role: 'assistant', content: null, tool_calls: [call('c', '{}')] },
  ])
  expect(answer).toMatchObject({ reasoning_details: details })
  expect(sent(2)[1]).toEqual({ role: 'assistant', content: null, ...said })
})
