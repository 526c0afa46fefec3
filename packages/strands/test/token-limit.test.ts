import { OsmosisRolloutModel } from '@osmosis/strands'
import { startPolicyServer } from '@osmosis/testing'
import { MaxTokensError } from '@strands-agents/sdk'
import { describe, expect, test } from 'vitest'

import { messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { addTool, policyAgent } from './rollout.ts'

const cutText = { content: 'Once upon', finishReason: 'length' }
const cutCall = {
  content: 'Adding.',
  toolCalls: [{ id: 'call-1', name: 'add', arguments: '{"a": 1, "b' }],
  finishReason: 'length',
}
const incomplete =
  "The selected tool add's tool use was incomplete due to maximum token limits being reached."

describe('an answer that the token limit cut off', () => {
  test('throws and is the end of the sample', async () => {
    await using server = await startPolicyServer([cutText])
    const rollout = rolloutOn(server)
    const invoked = rollout.run(async () => policyAgent().invoke('go'))
    await expect(invoked).rejects.toBeInstanceOf(MaxTokensError)
    const { messages, trajectoryMessages } = await sampleOf(rollout)
    expect(messages.at(-1)).toEqual({ role: 'assistant', content: [{ text: 'Once upon' }] })
    expect(trajectoryMessages?.at(-1)).toEqual({ role: 'assistant', content: 'Once upon' })
  })

  test('can be continued, in the words of the policy', async () => {
    await using server = await startPolicyServer([cutText, ' a time.'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = policyAgent()
      await expect(agent.invoke('go')).rejects.toBeInstanceOf(MaxTokensError)
      await agent.invoke('continue')
    })
    expect(messagesOf(server.requests[1])).toEqual([
      { role: 'user', content: 'go' },
      { role: 'assistant', content: 'Once upon' },
      { role: 'user', content: 'continue' },
    ])
    expect((await sampleOf(rollout)).extraFields).toEqual({})
  })

  test('in the middle of a call has a note in its place, and the call in the record', async () => {
    await using server = await startPolicyServer([cutCall, 'sorry'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = policyAgent({ tools: [addTool()] })
      await expect(agent.invoke('go')).rejects.toBeInstanceOf(MaxTokensError)
      expect((await sampleOf(rollout)).trajectoryMessages?.at(-1)?.tool_calls).toMatchObject([
        { function: { arguments: '{"a": 1, "b' } },
      ])
      await agent.invoke('continue')
    })
    expect((await sampleOf(rollout)).messages[1]).toEqual({
      role: 'assistant',
      content: [{ text: 'Adding.' }, { text: incomplete }],
    })
    expect(messagesOf(server.requests[1])[1]).toEqual({
      role: 'assistant',
      content: `Adding.${incomplete}`,
    })
  })

  test('ends the turn with onLength: stop, and can be continued as well', async () => {
    await using server = await startPolicyServer([cutText, cutCall, 'sorry'])
    const rollout = rolloutOn(server)
    const model = new OsmosisRolloutModel({ onLength: 'stop' })
    const results = await rollout.run(async () => {
      const agent = policyAgent({ model, tools: [addTool()] })
      return [await agent.invoke('go'), await agent.invoke('on'), await agent.invoke('again')]
    })
    expect(results.map(({ stopReason }) => stopReason)).toEqual(['length', 'length', 'endTurn'])
    expect(messagesOf(server.requests[2])).toEqual([
      { role: 'user', content: 'go' },
      { role: 'assistant', content: 'Once upon' },
      { role: 'user', content: 'on' },
      { role: 'assistant', content: `Adding.${incomplete}` },
      { role: 'user', content: 'again' },
    ])
    expect((await sampleOf(rollout)).messages).toHaveLength(6)
  })
})

test('an answer that a filter ended has its stop reason', async () => {
  await using server = await startPolicyServer([{ content: 'I', finishReason: 'content_filter' }])
  const result = await rolloutOn(server).run(async () => policyAgent().invoke('go'))
  expect(result.stopReason).toBe('contentFiltered')
})
