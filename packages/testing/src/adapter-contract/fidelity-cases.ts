import type { ScriptedToolCall } from '@osmosis/controller'
import { lastAssistantText, type RolloutSample } from '@osmosis/core'
import type { ChatMessage, ChatToolCall } from '@osmosis/core/policy'

import { expectEqual, expectMatch, expectThat } from '../contract-expectations.ts'
import { fault, type Reply } from '../policy-reply.ts'
import { startPolicyServer } from '../policy-server.ts'
import type { AdapterUnderTest, ContractCase, ContractRule } from './adapter-rules.ts'
import { addTool, contractRollout, messagesOf, runWithRequests } from './contract-rollout.ts'

/** The answers of the policy are sent back to it, and recorded, unchanged. */
export const fidelityCases = {
  'records-conversation': async (adapter) => {
    const { requests, sample } = await converse(adapter, [
      call('call-1', '{"a":1,"b":2}'),
      'It is 3.',
    ])
    const [first, second] = requests
    expectEqual('trajectoryMessages', sample.trajectoryMessages, [
      ...(second ?? []),
      { role: 'assistant', content: 'It is 3.' },
    ])
    expectEqual(
      'the roles that the second request adds',
      second?.slice(first?.length).map(({ role }) => role),
      ['assistant', 'tool'],
    )
    expectMatch('the last message of the second request', JSON.stringify(second?.at(-1)), /sum: 3/)
    expectCallsExtend(sample, 2)
    expectEqual('the last text of the sample', lastAssistantText(sample), 'It is 3.')
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
    expectAppendOnly(requests)
    expectEqual(returnedArguments, argumentsIn(requests.at(-1)), written)
  },

  'echoes-text-beside-calls': async (adapter) => {
    const { requests } = await converse(adapter, [
      call('call-1', '{"a":1,"b":2}', { content: 'Let me add  that up.\n' }),
      'done',
    ])
    expectAppendOnly(requests)
    expectEqual(lastTurns, turnsIn(requests.at(-1)), [
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
    expectAppendOnly(requests)
    const turns = turnsIn(requests.at(-1))
    expectEqual(
      'the tool calls of each turn in the last request',
      turns.map(({ tool_calls }) => tool_calls),
      [written.map((text, index) => wireCall(`call-${index}`, text))],
    )
    expectEqual(resultIds, resultIdsIn(requests.at(-1)), ['call-0', 'call-1', 'call-2'])
  },

  'names-calls': async (adapter) => {
    const written = ['{"a": 1,  "b": 1}', '{"a": 2,  "b": 2}']
    const toolCalls = written.map((text): ScriptedToolCall => ({ name: 'add', arguments: text }))
    const nameless = fault.on({ toolCalls }, { omit: ['toolCallIds'] })
    const { requests, sample } = await converse(adapter, [nameless, 'done'])
    expectAppendOnly(requests)
    const calls = turnsIn(requests.at(-1)).flatMap(({ tool_calls = [] }) => tool_calls)
    const ids = calls.map(({ id }) => id)
    const expected = written.map((text, index) => wireCall(ids[index] ?? '', text))
    expectEqual('the tool calls in the last request', calls, expected)
    const areUnique = new Set(ids).size === 2 && ids.every(Boolean)
    expectThat(areUnique, 'an id of its own for each tool call', ids)
    expectEqual(resultIds, resultIdsIn(requests.at(-1)), ids)
    const recorded = sample.trajectoryMessages?.slice(0, requests.at(-1)?.length)
    expectEqual('trajectoryMessages up to the last request', recorded, requests.at(-1))
    expectCallsExtend(sample, 2)
  },

  'echoes-reasoning': async (adapter) => {
    const { requests, sample } = await converse(adapter, [
      call('call-1', '{"a":1,"b":2}', { reasoning: 'I should add.' }),
      { content: 'It is 3.', reasoning: 'That was easy.' },
    ])
    expectAppendOnly(requests)
    expectEqual(lastTurns, turnsIn(requests.at(-1)), [
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'I should add.',
        tool_calls: [wireCall('call-1', '{"a":1,"b":2}')],
      },
    ])
    expectEqual('the last of trajectoryMessages', sample.trajectoryMessages?.at(-1), {
      role: 'assistant',
      content: 'It is 3.',
      reasoning_content: 'That was easy.',
    })
  },

  'empties-malformed-arguments': async (adapter) => {
    const { requests, sample } = await converse(adapter, [call('call-1', '{"a": 1, "b'), 'sorry'])
    expectAppendOnly(requests)
    expectEqual(returnedArguments, argumentsIn(requests.at(-1)), ['{}'])
    const recorded = argumentsIn(sample.trajectoryMessages ?? [])
    expectEqual('the recorded tool arguments', recorded, ['{"a": 1, "b'])
  },
} satisfies Partial<Record<ContractRule, ContractCase>>

const returnedArguments = 'the tool arguments in the last request'
const lastTurns = 'the assistant messages in the last request'
const resultIds = 'the tool_call_id of each result in the last request'

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
  await runWithRequests(server, replies.length, rollout, async () =>
    adapter.run({ name: 'solver', prompt: 'go', tools: [addTool] }),
  )
  const sample = (await rollout.getSamples()).get('solver')
  expectThat(sample !== undefined, 'the agent to be a sample of its rollout', sample)
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
function expectAppendOnly(requests: readonly (readonly ChatMessage[])[]): void {
  for (const [index, messages] of requests.entries()) {
    const before = requests[index - 1]
    if (before === undefined) continue
    const prefix = JSON.stringify(messages.slice(0, before.length))
    const request = `request ${index + 1}`
    expectEqual(`the beginning of ${request}`, prefix, JSON.stringify(before))
    const [turn, ...results] = messages.slice(before.length).map(({ role }) => role)
    expectEqual(`the first role that ${request} adds`, turn, 'assistant')
    const areResults = results.every((role) => role === 'tool')
    expectThat(areResults, `${request} to add only tool results after it`, results)
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

function resultIdsIn(messages: readonly ChatMessage[] = []): unknown[] {
  return messages.flatMap(({ role, tool_call_id }) => (role === 'tool' ? [tool_call_id] : []))
}

function expectCallsExtend({ calls }: RolloutSample, count: number): void {
  const extend = calls.map(({ extendsPrevious }) => extendsPrevious)
  expectEqual('extendsPrevious of each call', extend, Array(count).fill(true))
}
