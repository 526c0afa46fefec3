import assert from 'node:assert/strict'

import type { ScriptedToolCall } from '@osmosis/controller'
import { lastAssistantText, type RolloutSample } from '@osmosis/core'
import type { ChatMessage, ChatToolCall } from '@osmosis/core/policy'

import { fault, type Reply } from '../policy-reply.ts'
import { startPolicyServer } from '../policy-server.ts'
import type { AdapterUnderTest, ContractCase } from './adapter-under-test.ts'
import { addTool, contractRollout, messagesOf } from './contract-rollout.ts'
import type { ContractRule } from './contract-rules.ts'

/** What the policy said is what goes back to it, and what is recorded. */
export const fidelityCases = {
  'records-conversation': async (adapter) => {
    const { requests, sample } = await converse(adapter, [
      call('call-1', '{"a":1,"b":2}'),
      'It is 3.',
    ])
    const [first, second] = requests
    assert.deepEqual(sample.trajectoryMessages, [
      ...(second ?? []),
      { role: 'assistant', content: 'It is 3.' },
    ])
    assert.deepEqual(
      second?.slice(first?.length).map(({ role }) => role),
      ['assistant', 'tool'],
    )
    assert.match(JSON.stringify(second?.at(-1)), /sum: 3/)
    assert.equal(sample.calls.length, 2)
    assert.ok(sample.calls.every(({ extendsPrevious }) => extendsPrevious))
    assert.equal(lastAssistantText(sample), 'It is 3.')
  },

  'echoes-arguments': async (adapter) => {
    const written = [
      '{ "a" : 12.0,   "b":2 }',
      '{"a":12345678901234567890,"b":1e2}',
      '{"b":1,"a":2,"note":"Zoë \\u00e9 😀 \\/ \\"x\\""}',
    ]
    const { requests } = await converse(adapter, [
      ...written.map((text, index) => call(`call-${index}`, text)),
      'done',
    ])
    assertAppendOnly(requests)
    assert.deepEqual(argumentsIn(requests.at(-1)), written)
  },

  'echoes-text-beside-calls': async (adapter) => {
    const { requests } = await converse(adapter, [
      call('call-1', '{"a":1,"b":2}', { content: 'Let me add  that up.\n' }),
      'done',
    ])
    assertAppendOnly(requests)
    assert.deepEqual(turnsIn(requests.at(-1)), [
      {
        role: 'assistant',
        content: 'Let me add  that up.\n',
        tool_calls: [wireCall('call-1', '{"a":1,"b":2}')],
      },
    ])
  },

  'echoes-parallel-calls': async (adapter) => {
    const written = ['{"a":1,"b":1}', '{"a": 2, "b": 2}', '{"a":3,"b":3}']
    const toolCalls = written.map((text, index): ScriptedToolCall => ({
      id: `call-${index}`,
      name: 'add',
      arguments: text,
    }))
    const { requests } = await converse(adapter, [{ toolCalls }, 'done'])
    assertAppendOnly(requests)
    const turns = turnsIn(requests.at(-1))
    assert.deepEqual(
      turns.map(({ tool_calls }) => tool_calls),
      [written.map((text, index) => wireCall(`call-${index}`, text))],
    )
    const results = requests.at(-1)?.filter(({ role }) => role === 'tool') ?? []
    assert.deepEqual(
      results.map(({ tool_call_id }) => tool_call_id),
      ['call-0', 'call-1', 'call-2'],
    )
  },

  'names-calls': async (adapter) => {
    const written = ['{"a": 1,  "b": 1}', '{"a": 2,  "b": 2}']
    const toolCalls = written.map((text): ScriptedToolCall => ({ name: 'add', arguments: text }))
    const nameless = fault.on({ toolCalls }, { omit: ['toolCallIds'] })
    const { requests, sample } = await converse(adapter, [nameless, 'done'])
    assertAppendOnly(requests)
    const calls = turnsIn(requests.at(-1)).flatMap(({ tool_calls = [] }) => tool_calls)
    const ids = calls.map(({ id }) => id)
    assert.deepEqual(
      calls,
      written.map((text, index) => wireCall(ids[index] ?? '', text)),
    )
    assert.equal(new Set(ids).size, 2)
    assert.ok(ids.every(Boolean))
    const results = requests.at(-1)?.filter(({ role }) => role === 'tool') ?? []
    assert.deepEqual(
      results.map(({ tool_call_id }) => tool_call_id),
      ids,
    )
    assert.deepEqual(sample.trajectoryMessages?.slice(0, requests.at(-1)?.length), requests.at(-1))
    assert.ok(sample.calls.every(({ extendsPrevious }) => extendsPrevious))
  },

  'echoes-reasoning': async (adapter) => {
    const { requests, sample } = await converse(adapter, [
      call('call-1', '{"a":1,"b":2}', { reasoning: 'I should add.' }),
      { content: 'It is 3.', reasoning: 'That was easy.' },
    ])
    assertAppendOnly(requests)
    assert.deepEqual(turnsIn(requests.at(-1)), [
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'I should add.',
        tool_calls: [wireCall('call-1', '{"a":1,"b":2}')],
      },
    ])
    assert.deepEqual(sample.trajectoryMessages?.at(-1), {
      role: 'assistant',
      content: 'It is 3.',
      reasoning_content: 'That was easy.',
    })
  },

  'empties-malformed-arguments': async (adapter) => {
    const { requests, sample } = await converse(adapter, [call('call-1', '{"a": 1, "b'), 'sorry'])
    assertAppendOnly(requests)
    assert.deepEqual(argumentsIn(requests.at(-1)), ['{}'])
    assert.deepEqual(argumentsIn(sample.trajectoryMessages ?? []), ['{"a": 1, "b'])
  },
} satisfies Partial<Record<ContractRule, ContractCase>>

interface Conversation {
  /** The messages of each request. */
  readonly requests: readonly ChatMessage[][]
  readonly sample: RolloutSample
}

async function converse(
  adapter: AdapterUnderTest,
  replies: readonly Reply[],
): Promise<Conversation> {
  await using server = await startPolicyServer(replies, adapter)
  const rollout = contractRollout(server)
  await rollout.run(async () => adapter.run({ name: 'solver', prompt: 'go', tools: [addTool] }))
  assert.equal(server.requests.length, replies.length)
  const sample = (await rollout.getSamples()).get('solver')
  assert.ok(sample, 'the agent is not a sample of its rollout')
  return { requests: server.requests.map(messagesOf), sample }
}

function call(
  id: string,
  text: string,
  beside: { content?: string; reasoning?: string } = {},
): Reply {
  return { ...beside, toolCalls: [{ id, name: 'add', arguments: text }] }
}

function wireCall(id: string, text: string): ChatToolCall {
  return { id, type: 'function', function: { name: 'add', arguments: text } }
}

/** Each request is the one before it, one turn of the policy, and the results of its calls. */
function assertAppendOnly(requests: readonly (readonly ChatMessage[])[]): void {
  for (const [index, messages] of requests.entries()) {
    const before = requests[index - 1]
    if (before === undefined) continue
    const prefix = messages.slice(0, before.length)
    assert.equal(JSON.stringify(prefix), JSON.stringify(before))
    const [turn, ...results] = messages.slice(before.length)
    assert.equal(turn?.role, 'assistant')
    assert.ok(results.every(({ role }) => role === 'tool'))
  }
}

function turnsIn(messages: readonly ChatMessage[] = []): ChatMessage[] {
  return messages.filter(({ role }) => role === 'assistant')
}

function argumentsIn(messages: readonly ChatMessage[] = []): string[] {
  return turnsIn(messages).flatMap(({ tool_calls = [] }) =>
    tool_calls.map((toolCall) => toolCall.function.arguments),
  )
}
