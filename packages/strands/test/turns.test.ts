import { lastAssistantText } from '@osmosis/core'
import { fault, type FaultyReply, startPolicyServer } from '@osmosis/testing'
import { describe, expect, test } from 'vitest'

import { callAdd, messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { addTool, policyAgent } from './rollout.ts'

/** An event stream of exactly these deltas. */
function deltas(finish: string, ...parts: object[]): FaultyReply {
  const events = [
    ...parts.map((delta) => ({ choices: [{ index: 0, delta }] })),
    { choices: [{ index: 0, delta: {}, finish_reason: finish }] },
  ]
  const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
  return fault.raw(`${text}data: [DONE]\n\n`)
}

describe('a turn of the policy', () => {
  test('keeps white space at the edges of its text, and text that is nothing else', async () => {
    const said = ['  padded \n', '\n\n', ' \t']
    await using server = await startPolicyServer([
      said[0] ?? '',
      { content: said[1] ?? '', toolCalls: callAdd.toolCalls },
      said[2] ?? '',
      'done',
    ])
    await rolloutOn(server).run(async () => {
      const agent = policyAgent({ tools: [addTool()] })
      for (const input of ['one', 'two', 'three']) await agent.invoke(input)
    })
    const turns = messagesOf(server.requests.at(-1)).filter(({ role }) => role === 'assistant')
    expect(turns.map(({ content }) => content)).toEqual(said)
  })

  test('that is a refusal is a text to Strands and a refusal to the policy', async () => {
    await using server = await startPolicyServer([
      deltas('stop', { refusal: 'I will ' }, { refusal: 'not.' }),
      'fine',
    ])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = policyAgent()
      expect((await agent.invoke('one')).toString()).toBe('I will not.')
      await agent.invoke('two')
    })
    expect(messagesOf(server.requests[1])[1]).toEqual({
      role: 'assistant',
      content: '',
      refusal: 'I will not.',
    })
  })

  test('may be empty', async () => {
    await using server = await startPolicyServer(['', 'done'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = policyAgent()
      expect((await agent.invoke('one')).stopReason).toBe('endTurn')
      await agent.invoke('two')
    })
    expect(messagesOf(server.requests[1])).toEqual([
      { role: 'user', content: 'one' },
      { role: 'assistant', content: '' },
      { role: 'user', content: 'two' },
    ])
    expect(lastAssistantText(await sampleOf(rollout))).toBe('done')
  })
})
