import type { ChatMessage } from '@osmosis/core/policy'
import { type ReceivedRequest, type Reply, startPolicyServer } from '@osmosis/testing'
import { messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { addTool, policyAgent } from './rollout.ts'

const names = ['planner', 'executor']
const maxIterations = 8

/** The arguments of a tool call, in a form that JSON.stringify would not produce. */
const callsAdd = '{ "a" : 1.0,\t"b":2, "big": 12345678901234567890 }'

function callsHelper(who: string): string {
  return `{"input" :  "help ${who}" ,"\\u0061": -0}`
}

function textOf(message: ChatMessage | undefined): string {
  return typeof message?.content === 'string' ? message.content : ''
}

/** Calls the helper, then adds, then answers with its own name; the helper repeats its message. */
function answer(request: ReceivedRequest): Reply {
  const messages = messagesOf(request)
  const first = textOf(messages[0])
  if (first.startsWith('help ')) return `helped: ${first}`
  const results = messages.filter(({ role }) => role === 'tool')
  const called = (name: string, args: string): Reply => ({
    content: '\n\n',
    reasoning: `${first} calls ${name}`,
    toolCalls: [{ id: `${name}-${first}`, name, arguments: args }],
  })
  if (results.length === 0) return called(`${first.split('/')[1]}_helper`, callsHelper(first))
  if (results.length === 1) return called('add', callsAdd)
  return `${first}: ${results.map(textOf).join(', ')}`
}

async function runAgent(rolloutId: string, name: string): Promise<string> {
  const helper = policyAgent({ name: `${name}_helper` })
  const messages = [{ role: 'user', content: `${rolloutId}/${name}` }]
  const agent = policyAgent({ name, messages, tools: [helper, addTool()] })
  for (let iteration = 0; iteration < maxIterations; iteration += 1) {
    const result = await agent.invoke(undefined, { limits: { turns: 1 } })
    if (result.stopReason !== 'limitTurns') return result.toString()
  }
  throw new Error('the loop never ended')
}

/**
 * Runs rollouts of two agents with helpers, in loops, concurrently, and compares all their requests with
 * the expected ones.
 *
 * @returns the last answers of the agents
 */
export async function textsOfRollouts(count: number): Promise<string[][]> {
  const rollouts = Array.from({ length: count }, (_, index) => `rollout-${index}`)
  await using server = await startPolicyServer(answer)
  const contexts = rollouts.map((id) => rolloutOn(server, id))
  const texts = await Promise.all(
    contexts.map(async (context) =>
      context.run(async () =>
        Promise.all(names.map(async (name) => runAgent(context.rolloutId, name))),
      ),
    ),
  )
  expect(server.requests).toHaveLength(rollouts.length * names.length * 4)

  const conversations = new Map<string, ChatMessage[][]>()
  for (const request of server.requests) {
    const { 'x-rollout-id': rolloutId, 'x-sample-id': sampleId, authorization } = request.headers
    expect(authorization).toBe('Bearer key')
    const who = `${String(rolloutId)}/${String(sampleId)}`
    const messages = messagesOf(request)
    expect(textOf(messages[0]).replace(/^help (.*)$/, '$1_helper')).toBe(who)
    conversations.set(who, [...(conversations.get(who) ?? []), messages])
  }
  for (const [who, requests] of conversations) expectToGrow(who, requests)

  for (const context of contexts.slice(0, 5)) {
    for (const name of names) {
      const { extraFields, calls, messages } = await sampleOf(context, name)
      expect(extraFields).toEqual({})
      expect(calls).toHaveLength(3)
      expect(messages).toHaveLength(6)
    }
  }
  return texts
}

/** The expected last answers of the agents. */
export function expectedTexts(count: number): string[][] {
  return Array.from({ length: count }, (_, index) =>
    names.map((name) => {
      const who = `rollout-${index}/${name}`
      return `${who}: helped: help ${who}, sum: 3`
    }),
  )
}

/** Each request is the one before it, the turn of the policy as it was written, and one result. */
function expectToGrow(who: string, requests: readonly ChatMessage[][]): void {
  expect(requests).toHaveLength(who.endsWith('_helper') ? 1 : 3)
  const written = [callsHelper(who), callsAdd]
  for (const [index, before] of requests.slice(0, -1).entries()) {
    const name = index === 0 ? `${who.split('/')[1]}_helper` : 'add'
    const id = `${name}-${who}`
    expect(requests[index + 1]).toEqual([
      ...before,
      {
        role: 'assistant',
        content: '\n\n',
        reasoning_content: `${who} calls ${name}`,
        tool_calls: [{ id, type: 'function', function: { name, arguments: written[index] } }],
      },
      {
        role: 'tool',
        tool_call_id: id,
        content: index === 0 ? `helped: help ${who}` : 'sum: 3',
      },
    ])
  }
}
