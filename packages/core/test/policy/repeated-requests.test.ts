import { RolloutContext } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { answerStream, sendStream, startPolicyEndpoint, runs } from '../../../../test/kit/index.ts'

type Messages = readonly ChatMessage[]

/** The JSON of the messages of each request as it came, when these are asked one after the other. */
async function sent(requests: Iterable<() => Messages>): Promise<string[]> {
  const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('done')))
  const client = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url }).policy('m')
  for (const messages of requests) await client.complete({ messages: [...messages()] })
  // Not parsed: after an object with a key that is a backslash, V8 13.6 takes a quotation mark for it.
  return policy.requests.map(({ raw }) => raw.slice(raw.indexOf('"messages":') + 11, -1))
}

describe('a message that was sent before', () => {
  it('goes out as it is now when it was changed in place', async () => {
    const part = { type: 'text', text: 'look' }
    const message: ChatMessage = { role: 'user', content: [part], name: 'a' }
    const request = (): Messages => [{ role: 'system', content: 'be brief' }, message]
    const texts = await sent([
      request,
      () => {
        part.text = 'look again'
        return request()
      },
      () => {
        delete message.name
        return request()
      },
      () => {
        message['extra'] = undefined
        message['weight'] = 2
        return request()
      },
    ])
    expect(texts.map((text) => (JSON.parse(text) as unknown[])[1])).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'look' }], name: 'a' },
      { role: 'user', content: [{ type: 'text', text: 'look again' }], name: 'a' },
      { role: 'user', content: [{ type: 'text', text: 'look again' }] },
      { role: 'user', content: [{ type: 'text', text: 'look again' }], weight: 2 },
    ])
  })

  it('goes out as its own toJSON says each time', async () => {
    let asked = 0
    const at = { toJSON: () => `time ${(asked += 1)}` }
    const message = { role: 'user', content: 'when?', at } as unknown as ChatMessage
    const texts = await sent([() => [message], () => [message]])
    const times = texts.map((text) => (JSON.parse(text) as { at: string }[])[0]?.at)
    expect(new Set(times).size).toBe(2)
  })

  it('goes out as JSON writes it, whatever was sent at its place before', async () => {
    const content = fc.oneof(
      fc.constantFrom('a', 'b', ''),
      fc.array(fc.record({ type: fc.constant('text'), text: fc.constantFrom('a', 'b') })),
    )
    const other = fc.option(fc.jsonValue({ maxDepth: 2 }), { nil: undefined })
    const message = fc.record(
      { role: fc.constantFrom('user', 'system', 'tool'), content, x: other, y: other },
      { requiredKeys: ['role', 'content'] },
    )
    const requests = fc.array(fc.array(message, { minLength: 1, maxLength: 4 }), {
      minLength: 1,
      maxLength: 12,
    })
    await fc.assert(
      fc.asyncProperty(requests, async (all) => {
        const given = all as unknown as Messages[]
        const texts = await sent(given.map((messages) => () => messages))
        expect(texts).toEqual(given.map((messages) => JSON.stringify(messages)))
      }),
      { numRuns: runs(30) },
    )
  })
})
