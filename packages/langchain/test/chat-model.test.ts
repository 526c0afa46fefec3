import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { OsmosisChatModel } from '@osmosis/langchain'
import { startPolicyServer } from '@osmosis/testing'
import { createAgent } from 'langchain'
import { describe, expect, test } from 'vitest'

import { callAdd, messagesOf, rolloutOn, sampleIds, sampleOf } from '../../../test/kit/index.ts'
import { add, go } from './rollout.ts'

const agent = createAgent({ model: new OsmosisChatModel('main'), tools: [add] })
const model = new OsmosisChatModel('main')
const graph = new StateGraph(MessagesAnnotation)
  .addNode('agent', async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addEdge(START, 'agent')
  .addEdge('agent', END)
  .compile()

test.each([
  ['an agent', agent],
  ['a graph', graph],
])('%s at the top of a file finds each of many rollouts', async (_what, program) => {
  await using server = await startPolicyServer((request) => {
    const messages = messagesOf(request)
    return program === agent && messages.length === 1 ? callAdd : (messages[0]?.content as string)
  })
  const rollouts = Array.from({ length: 30 }, (_, n) => rolloutOn(server, `rollout-${n}`))
  await Promise.all(
    rollouts.map(async (rollout) =>
      rollout.run(async () => {
        const { messages } = await program.invoke({
          messages: [{ role: 'user', content: rollout.rolloutId }],
        })
        expect(messages.at(-1)?.text).toBe(rollout.rolloutId)
      }),
    ),
  )
  for (const request of server.requests) {
    expect(request.headers).toMatchObject({ 'x-sample-id': 'main', authorization: 'Bearer key' })
    expect(request.headers['x-rollout-id']).toBe(messagesOf(request)[0]?.content)
  }
  for (const rollout of rollouts) {
    const { trajectoryMessages } = await sampleOf(rollout)
    expect(trajectoryMessages?.at(-1)?.content).toBe(rollout.rolloutId)
  }
})

test('a stream belongs to the rollout it was started in, wherever it is read', async () => {
  await using server = await startPolicyServer(['one', 'two'])
  const started = await rolloutOn(server, 'first').run(async () => model.stream('go'))
  await rolloutOn(server, 'second').run(async () => {
    for await (const _ of started);
  })
  expect(server.requests.map(({ headers }) => headers['x-rollout-id'])).toEqual(['first'])
})

test('a model that lost its async context belongs to the rollout it was made in', async () => {
  await using server = await startPolicyServer(['done'])
  const made = rolloutOn(server).run(() => new OsmosisChatModel('main'))
  expect((await made.invoke('go')).text).toBe('done')
  expect(sampleIds(server)).toEqual(['main'])
})

describe('names', () => {
  test('models of one name are one sample, models without a name one sample each', async () => {
    await using server = await startPolicyServer(() => 'done')
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      await new OsmosisChatModel('main').invoke('one')
      await new OsmosisChatModel({ name: 'main', seed: 1 }).invoke('two')
      const unnamed = new OsmosisChatModel()
      await unnamed.invoke('three')
      await unnamed.bindTools([add]).invoke('four')
      await new OsmosisChatModel().invoke('five')
    })
    const [one, two, three, four, five] = sampleIds(server)
    expect([one, two]).toEqual(['main', 'main'])
    expect(four).toBe(three)
    expect(new Set([one, three, five]).size).toBe(3)
    expect([...(await rollout.getSamples()).keys()]).toEqual([one, three, five])
  })
})

test('a cache is refused: its answers are not those of the policy', () => {
  const fields = { name: 'main', cache: true }
  expect(() => new OsmosisChatModel(fields)).toThrow(
    expect.objectContaining({ code: 'invalid_config', message: expect.stringContaining('cache') }),
  )
})

test('calls that are not training data stand beside the conversation of their sample', async () => {
  await using server = await startPolicyServer(['hi', 'a title'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    await model.invoke('hello')
    const titles = new OsmosisChatModel({ name: 'main', purpose: 'title', trainable: false })
    await titles.invoke('title of: hello')
  })
  expect(server.requests[1]?.headers).toMatchObject({
    'x-osmosis-purpose': 'title',
    'x-osmosis-trainable': 'false',
  })
  const { messages, calls } = await sampleOf(rollout)
  expect(messages).toEqual([
    { role: 'user', content: 'hello' },
    expect.objectContaining({ role: 'assistant', content: 'hi' }),
  ])
  expect(calls.map(({ purpose, trainable }) => [purpose, trainable])).toEqual([
    ['agent', true],
    ['title', false],
  ])
})

test('an endpoint that gives all answers one id does not make LangGraph replace messages', async () => {
  const answer = (choice: object): string =>
    [JSON.stringify({ id: 'same', choices: [choice] }), '[DONE]']
      .map((line) => `data: ${line}\n\n`)
      .join('')
  const called = { index: 0, id: 'call-1', function: { name: 'add', arguments: '{"a":1,"b":2}' } }
  await using server = await startPolicyServer([
    {
      answer: '',
      faults: {
        raw: answer({ index: 0, delta: { tool_calls: [called] }, finish_reason: 'tool_calls' }),
      },
    },
    {
      answer: '',
      faults: { raw: answer({ index: 0, delta: { content: 'done' }, finish_reason: 'stop' }) },
    },
  ])
  await rolloutOn(server).run(async () => {
    const { messages } = await agent.invoke({ messages: go })
    expect(messages.map(({ type }) => type)).toEqual(['human', 'ai', 'tool', 'ai'])
  })
})
