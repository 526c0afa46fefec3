import { tool } from '@strands-agents/sdk'
import { lastAssistantText } from '@osmosis/core'
import { fault, type FaultyReply, startPolicyServer } from '@osmosis/testing'
import { callAdd, messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { addTool, policyAgent } from './rollout.ts'

function wireCall(id: string, args: string, name = 'add'): object {
  return { id, type: 'function', function: { name, arguments: args } }
}

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

  test('may interleave calls, text and thinking, and name no role', async () => {
    await using server = await startPolicyServer([
      deltas(
        'tool_calls',
        { content: '\n' },
        { reasoning_content: 'First. ' },
        { tool_calls: [{ index: 0, id: 'a', function: { name: 'add', arguments: '{"a":1' } }] },
        { content: 'Some' },
        { tool_calls: [{ index: 1, id: 'b', function: { name: 'add', arguments: '{"a":2' } }] },
        { reasoning_content: 'Second.' },
        { tool_calls: [{ index: 0, function: { arguments: ', "b":1}' } }] },
        { content: ' text\n' },
        { tool_calls: [{ index: 1, function: { arguments: ', "b":2}' } }] },
      ),
      'done',
    ])
    await rolloutOn(server).run(async () => policyAgent({ tools: [addTool()] }).invoke('go'))
    expect(messagesOf(server.requests[1]).slice(1)).toEqual([
      {
        role: 'assistant',
        content: '\nSome text\n',
        reasoning_content: 'First. Second.',
        tool_calls: [wireCall('a', '{"a":1, "b":1}'), wireCall('b', '{"a":2, "b":2}')],
      },
      { role: 'tool', tool_call_id: 'a', content: 'sum: 2' },
      { role: 'tool', tool_call_id: 'b', content: 'sum: 4' },
    ])
  })

  test('with thinking under both names at once has it once', async () => {
    await using server = await startPolicyServer([
      deltas('stop', { reasoning: 'Hm.', reasoning_content: 'Hm.' }, { content: 'yes' }),
      'done',
    ])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = policyAgent()
      await agent.invoke('one')
      await agent.invoke('two')
    })
    expect((await sampleOf(rollout)).messages[1]).toEqual({
      role: 'assistant',
      content: [{ reasoning: { text: 'Hm.' } }, { text: 'yes' }],
    })
    expect(messagesOf(server.requests[1])[1]).toEqual({
      role: 'assistant',
      content: 'yes',
      reasoning_content: 'Hm.',
      reasoning: 'Hm.',
    })
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

  test('keeps a tool name that Strands would replace', async () => {
    const name = 'no such/tool'
    await using server = await startPolicyServer([
      { toolCalls: [{ id: 'call-1', name, arguments: '{ }' }] },
      'sorry',
    ])
    await rolloutOn(server).run(async () => policyAgent({ tools: [addTool()] }).invoke('go'))
    const [turn, result] = messagesOf(server.requests[1]).slice(1)
    expect(turn?.tool_calls).toEqual([wireCall('call-1', '{ }', name)])
    expect(result?.content).toMatch(/^\[ERROR\] .*no such\/tool/)
  })
})

describe('arguments that are not a JSON object', () => {
  test.each([
    ['{"a": 1, "b', /^\[ERROR\] Error: tool arguments are not valid JSON \(.+\): \{"a": 1, "b$/],
    ['[1, 2]', /^\[ERROR\] Error: tool arguments must be a JSON object: \[1, 2\]$/],
  ])('are reported to the policy, and no tool is called: %s', async (written, said) => {
    await using server = await startPolicyServer([
      { toolCalls: [{ id: 'call-1', name: 'spy', arguments: written }] },
      { toolCalls: [{ id: 'call-1', name: 'spy', arguments: '{}' }] },
      'done',
    ])
    const rollout = rolloutOn(server)
    const inputs: unknown[] = []
    await rollout.run(async () => {
      const spy = tool({
        name: 'spy',
        description: 'Takes anything.',
        inputSchema: z.looseObject({}),
        callback: (input) => {
          inputs.push(input)
          return 'called'
        },
      })
      await policyAgent({ tools: [spy] }).invoke('go')
    })
    const [turn, result, , retried] = messagesOf(server.requests[2]).slice(1)
    expect(turn?.tool_calls).toEqual([wireCall('call-1', '{}', 'spy')])
    expect(result?.content).toMatch(said)
    expect(retried?.content).toBe('called')
    expect(inputs).toEqual([{}])
    const { trajectoryMessages, extraFields } = await sampleOf(rollout)
    expect(trajectoryMessages?.[1]?.tool_calls).toEqual([wireCall('call-1', written, 'spy')])
    expect(extraFields).toEqual({})
  })

  test('are none at all for a tool without parameters', async () => {
    await using server = await startPolicyServer([
      { toolCalls: [{ id: 'call-1', name: 'now', arguments: '' }] },
      'done',
    ])
    await rolloutOn(server).run(async () => {
      const now = tool({ name: 'now', description: 'The time.', callback: () => 'noon' })
      await policyAgent({ tools: [now] }).invoke('go')
    })
    expect(messagesOf(server.requests[1]).at(-1)?.content).toBe('noon')
  })
})
