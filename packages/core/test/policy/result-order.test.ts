import { RolloutContext } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { startPolicyServer } from '@osmosis/testing'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { runs } from '../../../../test/kit/index.ts'

/** The messages that reach the policy. */
async function onTheWire(messages: readonly ChatMessage[]): Promise<ChatMessage[]> {
  await using server = await startPolicyServer(['done'])
  const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: server.url })
  await rollout.policy('main').complete({ messages: [...messages] })
  return server.requests[0]?.body['messages'] as ChatMessage[]
}

const calls = (...ids: string[]): ChatMessage => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })),
})
const result = (id: string): ChatMessage => ({
  role: 'tool',
  tool_call_id: id,
  content: `of ${id}`,
})
const user: ChatMessage = { role: 'user', content: 'go' }

const idsOf = (messages: readonly ChatMessage[]) =>
  messages.map(({ role, tool_call_id: id }) => id ?? role)

it('results stand in the order of their calls, however a framework orders them', async () => {
  const turn = fc.uniqueArray(fc.integer({ min: 0, max: 99 }), { minLength: 1, maxLength: 5 })
  await fc.assert(
    fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 3 }), async (turns) => {
      const messages = turns.flatMap((ids, at) => {
        const names = ids.map((id) => `${at}-${id}`)
        // Sorting makes an order of its own.
        return [user, calls(...names), ...names.toSorted().map(result)]
      })
      const expected = turns.flatMap((ids, at) => [
        'user',
        'assistant',
        ...ids.map((id) => `${at}-${id}`),
      ])
      expect(idsOf(await onTheWire(messages))).toEqual(expected)
    }),
    { numRuns: runs(40) },
  )
})

it.each([
  ['a result of no call comes last', ['a', 'b'], ['x', 'b', 'a'], ['a', 'b', 'x']],
  ['a missing result stays missing', ['a', 'b', 'c'], ['c', 'a'], ['a', 'c']],
  ['two results of one call keep their order', ['a', 'b'], ['b', 'a', 'a'], ['a', 'a', 'b']],
  ['results of equal ids stay as they are', ['a', 'a', 'b'], ['b', 'a', 'a'], ['b', 'a', 'a']],
])('%s', async (_what, called, given, expected) => {
  const sent = await onTheWire([user, calls(...called), ...given.map(result)])
  expect(idsOf(sent).slice(2)).toEqual(expected)
})
