import { rolloutModel } from '@osmosis/ai-sdk'
import { lastAssistantText } from '@osmosis/core'
import { fault, type PolicyServer, startPolicyServer } from '@osmosis/testing'
import { generateText, isStepCount, type ModelMessage, pruneMessages, streamText, tool } from 'ai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { callAdd, messagesOf, rolloutOn, sampleIds, sampleOf } from '../../../test/kit/index.ts'
import { callOfAdd as call, rolesOf, toolOutputs, tools } from './rollout.ts'

const untilDone = isStepCount(20)

describe('a stream is recorded as a whole', () => {
  const words = Array.from({ length: 200 }, (_, index) => `word-${index}`).join(' ')
  const options = { model: rolloutModel('main'), prompt: 'go' }

  test.each<[string, (server: PolicyServer) => Promise<unknown>]>([
    ['when it is read', async () => streamText(options).text],
    [
      'when no one reads it',
      async (server) => {
        streamText(options)
        await server.waitForRequest(0)
      },
    ],
    [
      'when its reader leaves after the first word',
      async () => {
        for await (const text of streamText(options).textStream) if (text !== '') break
      },
    ],
    [
      'when its reader cancels it',
      async () => {
        const reader = streamText(options).textStream.getReader()
        await reader.read()
        await reader.cancel()
      },
    ],
  ])('%s', async (_when, run) => {
    await using server = await startPolicyServer([fault.on(words, { chunkBytes: 4096 })])
    const rollout = rolloutOn(server)
    await rollout.run(async () => run(server))
    const sample = await sampleOf(rollout, 'main')
    expect(lastAssistantText(sample)).toBe(words)
    expect(sample.trajectoryMessages?.at(-1)).toEqual({ role: 'assistant', content: words })
    expect(await server.requests[0]?.closed).toBe(false)
  })
})

test('a chat that continues over several calls is one conversation', async () => {
  await using server = await startPolicyServer(['one', callAdd, 'two', 'three'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const messages: ModelMessage[] = []
    for (const content of ['a', 'b', 'c']) {
      messages.push({ role: 'user', content })
      const { responseMessages } = await generateText({
        model: rolloutModel('main'),
        messages,
        tools,
        stopWhen: untilDone,
      })
      messages.push(...responseMessages)
    }
  })
  const sample = await sampleOf(rollout, 'main')
  expect(sample.extraFields).toEqual({})
  expect(sample.calls.every(({ extendsPrevious }) => extendsPrevious)).toBe(true)
  expect(sample.trajectoryMessages).toHaveLength(8)
  expect(rolesOf(sample)).toEqual(sample.trajectoryMessages?.map(({ role }) => role))
})

test('compaction in prepareStep is flagged, and the removed messages are recorded', async () => {
  await using server = await startPolicyServer([
    { toolCalls: [call('c1')] },
    { toolCalls: [call('c2')] },
    'done',
  ])
  const rollout = rolloutOn(server)
  await rollout.run(async () =>
    generateText({
      model: rolloutModel('main'),
      prompt: 'go',
      tools,
      stopWhen: untilDone,
      prepareStep: ({ stepNumber, messages }) =>
        stepNumber === 2
          ? { messages: pruneMessages({ messages, toolCalls: 'before-last-2-messages' }) }
          : {},
    }),
  )
  const sample = await sampleOf(rollout, 'main')
  expect(sample.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, true, false])
  expect(sample.extraFields).toMatchObject({
    history_rewritten: true,
    other_conversations: [
      [{ role: 'user' }, { role: 'assistant' }, { role: 'tool' }, { role: 'assistant' }],
    ],
  })
  expect(rolesOf(sample)).toEqual(['user', 'assistant', 'tool', 'assistant'])
  expect(lastAssistantText(sample)).toBe('done')
})

test('pruned thinking goes back all the same, so that the conversation continues', async () => {
  await using server = await startPolicyServer([
    { reasoning: 'Hm.', toolCalls: [call('c1')] },
    'done',
  ])
  const rollout = rolloutOn(server)
  await rollout.run(async () =>
    generateText({
      model: rolloutModel('main'),
      prompt: 'go',
      tools,
      stopWhen: untilDone,
      prepareStep: ({ messages }) => ({ messages: pruneMessages({ messages, reasoning: 'all' }) }),
    }),
  )
  expect(messagesOf(server.requests[1])[1]).toMatchObject({ reasoning_content: 'Hm.' })
  expect((await sampleOf(rollout, 'main')).extraFields).toEqual({})
})

describe('an agent used as a tool', () => {
  const outer = { toolCalls: [{ id: 'c1', name: 'ask', arguments: '{"question":"what?"}' }] }
  const script = [outer, 'inner answer', 'outer answer']

  function asking(model: ReturnType<typeof rolloutModel>) {
    return {
      ask: tool({
        inputSchema: z.object({ question: z.string() }),
        execute: async ({ question }) => (await generateText({ model, prompt: question })).text,
      }),
    }
  }

  test('with a name of its own is a sample of its own', async () => {
    await using server = await startPolicyServer(script)
    const rollout = rolloutOn(server)
    await rollout.run(async () =>
      generateText({
        model: rolloutModel('outer'),
        prompt: 'go',
        tools: asking(rolloutModel('inner')),
        stopWhen: untilDone,
      }),
    )
    expect(sampleIds(server)).toEqual(['outer', 'inner', 'outer'])
    const samples = await rollout.getSamples()
    expect([...samples].map(([id, sample]) => [id, lastAssistantText(sample)])).toEqual([
      ['outer', 'outer answer'],
      ['inner', 'inner answer'],
    ])
    expect(samples.get('outer')?.extraFields).toEqual({})
  })

  test('with the model of the outer one is recorded next to its conversation', async () => {
    await using server = await startPolicyServer(script)
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const model = rolloutModel('outer')
      await generateText({ model, prompt: 'go', tools: asking(model), stopWhen: untilDone })
    })
    const sample = await sampleOf(rollout, 'outer')
    expect(rolesOf(sample)).toEqual(['user', 'assistant', 'tool', 'assistant'])
    expect(lastAssistantText(sample)).toBe('outer answer')
    expect(sample.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, false, true])
    expect(sample.extraFields['other_conversations']).toEqual([
      [
        { role: 'user', content: 'what?' },
        { role: 'assistant', content: 'inner answer' },
      ],
    ])
  })
})

test.each([
  [true, { type: 'text', value: 'paid 5' }],
  [false, expect.objectContaining({ type: 'execution-denied' })],
])(
  'a tool call that waits for an approval (%s) continues in its sample',
  async (approved, output) => {
    await using server = await startPolicyServer([
      { toolCalls: [{ id: 'c1', name: 'pay', arguments: '{ "amount": 5 }' }] },
      'done',
    ])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const pay = tool({
        inputSchema: z.object({ amount: z.number() }),
        needsApproval: true,
        execute: ({ amount }) => `paid ${amount}`,
      })
      const options = { model: rolloutModel('main'), tools: { pay }, stopWhen: untilDone }
      const messages: ModelMessage[] = [{ role: 'user', content: 'go' }]
      const paused = await generateText({ ...options, messages })
      const requests = paused.content.filter((part) => part.type === 'tool-approval-request')
      messages.push(...paused.responseMessages, {
        role: 'tool',
        content: requests.map(({ approvalId }) => ({
          type: 'tool-approval-response',
          approvalId,
          approved,
        })),
      })
      await generateText({ ...options, messages })
    })
    const sample = await sampleOf(rollout, 'main')
    expect(rolesOf(sample)).toEqual(['user', 'assistant', 'tool', 'assistant'])
    expect(toolOutputs(sample)).toEqual([['c1', output]])
    expect(sample.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, true])
    expect(messagesOf(server.requests[1])[1]?.tool_calls).toMatchObject([
      { id: 'c1', function: { arguments: '{ "amount": 5 }' } },
    ])
  },
)

test('bytes and addresses in a prompt have a JSON form in the sample', async () => {
  await using server = await startPolicyServer(['A cat.'])
  const rollout = rolloutOn(server)
  await rollout.run(async () =>
    generateText({
      model: rolloutModel('main'),
      messages: [
        {
          role: 'user',
          content: [
            { type: 'file', mediaType: 'image/png', data: new Uint8Array([1, 2, 3]) },
            { type: 'file', mediaType: 'image/png', data: new URL('http://127.0.0.1:9/cat') },
          ],
        },
      ],
    }),
  )
  const [first] = (await sampleOf(rollout, 'main')).messages
  expect(first).toMatchObject({
    content: [{ data: { data: 'AQID' } }, { data: { url: 'http://127.0.0.1:9/cat' } }],
  })
  expect(JSON.parse(JSON.stringify(first))).toEqual(first)
})
