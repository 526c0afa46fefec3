import { readFileSync } from 'node:fs'
import path from 'node:path'

import type { ChatMessage } from '@osmosis/core/policy'
import { createPolicyProxy } from '@osmosis/proxy'
import { startPolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { rolloutOn, sampleOf } from '../kit/index.ts'

/** What a program sent to a proxy, in order; long descriptions are cut. */
interface Recorded {
  /** The package and its version. */
  readonly client: string
  readonly requests: readonly { readonly headers: Record<string, string>; readonly body: object }[]
}

function recordedOf(name: string): Recorded {
  const file = path.join(import.meta.dirname, 'recorded', `${name}.json`)
  return JSON.parse(readFileSync(file, 'utf8')) as Recorded
}

/** The answers that the programs received. */
const written = {
  name: 'mcp__calculator__multiply',
  arguments: '{"a": 12.0,  "b":34}',
}
const script = [
  {
    reasoning: 'hm ',
    content: 'A moment. ',
    toolCalls: [{ id: 'call.1', ...written }],
  },
  'It is 408.',
]

it.each([
  ['claude-agent-sdk', '/messages'],
  ['codex', '/responses'],
])('recorded requests of %s carry what the policy said, word for word', async (name, route) => {
  await using server = await startPolicyServer(script)
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const proxy = await createPolicyProxy(rollout.registerPolicySample('main'))
    for (const { headers, body } of recordedOf(name).requests) {
      const answer = await fetch(`${proxy.url}${route}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      })
      expect([answer.status, await answer.text()]).toEqual([
        200,
        expect.stringMatching(/event: (?:message_stop|response\.completed)\n/),
      ])
    }
    await proxy.close()
  })
  const [first = [], second = []] = server.requests.map(
    ({ body }) => body['messages'] as ChatMessage[],
  )
  expect(second.slice(0, first.length)).toEqual(first)
  expect(second[first.length]).toEqual({
    role: 'assistant',
    reasoning_content: 'hm ',
    content: 'A moment. ',
    tool_calls: [{ id: 'call.1', type: 'function', function: written }],
  })
  const sample = await sampleOf(rollout)
  expect(sample.calls).toMatchObject([
    { purpose: 'agent', trainable: true, rewrittenAt: null },
    { purpose: 'agent', trainable: true, rewrittenAt: null },
  ])
  expect(sample.messages).toHaveLength(first.length + 3)
  expect(sample.extraFields).toEqual({})
})
