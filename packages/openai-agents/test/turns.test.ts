import { run } from '@openai/agents'
import { OsmosisMemorySession } from '@osmosis/openai-agents'
import { fault, startPolicyServer } from '@osmosis/testing'
import { describe, expect, test } from 'vitest'

import { messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { kindsOf, policyAgent } from './rollout.ts'

describe('a turn goes back as one message', () => {
  test('also in a later run, where the SDK has made parts of its text', async () => {
    await using server = await startPolicyServer([{ content: 'One.', reasoning: 'Hm.' }, 'Two.'])
    await rolloutOn(server).run(async () => {
      const agent = policyAgent()
      const session = new OsmosisMemorySession()
      await run(agent, 'first', { session })
      await run(agent, 'second', { session })
    })
    expect(messagesOf(server.requests[1])).toEqual([
      { role: 'user', content: 'first' },
      { role: 'assistant', content: 'One.', reasoning_content: 'Hm.' },
      { role: 'user', content: 'second' },
    ])
  })

  test('when it is a refusal', async () => {
    const chunk = (delta: object, finish_reason: string | null = null): string =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`
    await using server = await startPolicyServer([
      fault.raw(`${chunk({ refusal: 'I will not.' })}${chunk({}, 'stop')}data: [DONE]\n\n`),
      'fine',
    ])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const session = new OsmosisMemorySession({ name: 'main' })
      // Depending on its version, the SDK ends such a run with an error.
      await Promise.allSettled([run(policyAgent(), 'first', { session })])
      await session.addItems([
        { role: 'user', content: 'first' },
        {
          type: 'message',
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'refusal', refusal: 'I will not.' }],
        },
      ])
      await run(policyAgent(), 'second', { session })
    })
    expect(messagesOf(server.requests.at(-1)).at(-2)).toEqual({
      role: 'assistant',
      content: '',
      refusal: 'I will not.',
    })
  })
})

describe('an empty answer ends the turn after one request', () => {
  test.each([
    ['nothing at all', { content: '' }, 'stop'],
    ['nothing, cut by max_tokens', { content: '', finishReason: 'length' }, 'length'],
    ['thinking only, cut by max_tokens', { reasoning: 'Well', finishReason: 'length' }, 'length'],
  ])('%s', async (_what, answer, finishReason) => {
    await using server = await startPolicyServer([answer])
    const rollout = rolloutOn(server)
    const result = await rollout.run(async () =>
      run(policyAgent(), 'go', { session: new OsmosisMemorySession({ name: 'main' }) }),
    )
    expect(result.finalOutput).toBe('')
    expect(result.rawResponses[0]?.providerData).toMatchObject({ finishReason })
    const sample = await sampleOf(rollout, 'main')
    expect(sample.calls.map((call) => call.finishReason)).toEqual([finishReason])
    expect(kindsOf(sample).at(-1)).toBe('assistant')
  })

  test('and is part of the conversation that a later run continues', async () => {
    await using server = await startPolicyServer([{ content: '' }, 'now'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const session = new OsmosisMemorySession({ name: 'main' })
      await run(policyAgent(), 'first', { session })
      await run(policyAgent(), 'second', { session })
    })
    expect(messagesOf(server.requests[1])).toEqual([
      { role: 'user', content: 'first' },
      { role: 'assistant', content: '' },
      { role: 'user', content: 'second' },
    ])
    expect((await sampleOf(rollout, 'main')).extraFields).toEqual({})
  })
})

test('thinking is an item of the sample', async () => {
  await using server = await startPolicyServer([{ content: 'Hi.', reasoning: 'Greet.' }])
  const rollout = rolloutOn(server)
  await rollout.run(async () =>
    run(policyAgent({ instructions: 'Be kind.' }), 'go', {
      session: new OsmosisMemorySession({ name: 'main' }),
    }),
  )
  const { messages } = await sampleOf(rollout, 'main')
  expect(messages).toMatchObject([
    { role: 'user', content: 'go' },
    { type: 'reasoning', rawContent: [{ type: 'reasoning_text', text: 'Greet.' }] },
    {
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Hi.' }],
    },
  ])
})
