import { once } from 'node:events'

import { RolloutContext, type PolicyLimits } from '@osmosis/core'
import { expect, it } from 'vitest'

import { chunk, eventStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

// What one answer can do to the process that reads it.

const messages = [{ role: 'user', content: 'hi' }]

function policyOf(url: string, policyLimits?: PolicyLimits) {
  const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: url, policyLimits })
  return rollout.policy('main')
}

const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

// Reading it takes under a second; searching in all that came before, for each part, takes minutes.
it.each([
  [
    'tool calls without numbers and ids',
    (n: number) => ({ tool_calls: [{ function: { name: `f${n}`, arguments: '{}' } }] }),
  ],
  [
    'tool calls of one number',
    (n: number) => ({
      tool_calls: [{ index: 0, id: `c${n}`, function: { name: 'f', arguments: '{}' } }],
    }),
  ],
  [
    'tool calls with names that no agent may have',
    (n: number) => ({
      tool_calls: [{ index: n, id: `c${n}`, function: { name: `ü${n}`, arguments: '{}' } }],
    }),
  ],
])('100,000 %s are read', { tags: 'slow', timeout: 60_000 }, async (_what, delta) => {
  const body = eventStream(
    ...Array.from({ length: 100_000 }, (_, n) => chunk(delta(n))),
    chunk({}, 'tool_calls'),
  )
  const policy = await startPolicyEndpoint((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(body)
  })
  const { choices } = await policyOf(policy.url).complete({ messages })
  expect(choices[0]?.message.tool_calls).toHaveLength(100_000)
})

it(
  '100,000 fields and items that chunks add to one object are read, and change no earlier chunk',
  { tags: 'slow', timeout: 60_000 },
  async () => {
    const count = 100_000
    const body = eventStream(
      ...Array.from({ length: count }, (_, n) =>
        chunk({ extra: { [`k${n}`]: n, list: [{ index: n, text: 'a' }] } }),
      ),
      chunk({ content: 'done', extra: { list: [{ index: 0, text: 'b' }] } }, 'stop'),
    )
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(body)
    })
    const stream = policyOf(policy.url).stream({ messages })
    let first: unknown
    for await (const { choices } of stream) first ??= choices[0]?.delta?.['extra']
    expect(first).toEqual({ k0: 0, list: [{ index: 0, text: 'a' }] })
    const { choices } = await stream.completion
    const extra = choices[0]?.message['extra'] as Record<string, unknown>
    expect(Object.keys(extra)).toHaveLength(count + 1)
    expect(extra['list']).toHaveLength(count)
    expect((extra['list'] as object[])[0]).toEqual({ index: 0, text: 'ab' })
  },
)

it.each([
  ['what keeps it alive', ': still here\n\n'],
  ['token ids', event({ choices: [{ index: 0, delta: {}, token_ids: [1, 2, 3, 4, 5, 6, 7, 8] }] })],
  ['tool calls', event(chunk({ tool_calls: [{ id: 'c', function: { name: 'f' } }] as never }))],
  ['unknown fields', event(chunk({ extra: { a: 'b' } }))],
  ['lines of one event', 'data: x\n'],
  ['spaces', '          '],
])('an answer with endless %s ends at its limit', async (_what, piece) => {
  const pieces = piece.repeat(200)
  const policy = await startPolicyEndpoint(async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    // Far beyond the limit; without end, a reader without a limit would never come to an end either.
    for (let sent = 0; sent < 5_000_000 && !response.destroyed; sent += pieces.length) {
      if (response.write(pieces)) continue
      await Promise.race([once(response, 'drain'), once(response, 'close')])
    }
    response.end()
  })
  const call = policyOf(policy.url, { maxAnswerBytes: 100_000 }).complete({ messages })
  await expect(call).rejects.toMatchObject({
    code: 'policy_stream_error',
    message: expect.stringMatching(
      /more than 100000 bytes\. policyLimits\.maxAnswerBytes/,
    ) as string,
  })
})

it.each([
  ['lists', '['.repeat(20_000) + ']'.repeat(20_000)],
  ['objects', '{"a":'.repeat(20_000) + '1' + '}'.repeat(20_000)],
])('JSON with 20,000 levels of %s is an error of the policy', async (_what, nested) => {
  for (const body of [
    `data: {"choices":[{"index":0,"delta":{"content":"a","extra":${nested}},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n`,
    `{"choices":[{"index":0,"message":{"content":"a","extra":${nested}},"finish_reason":"stop"}]}`,
  ]) {
    const contentType = body.startsWith('{') ? 'application/json' : 'text/event-stream'
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': contentType }).end(body)
    })
    await expect(policyOf(policy.url).complete({ messages })).rejects.toMatchObject({
      code: 'policy_stream_error',
      message: expect.stringMatching(/more than 500 levels/) as string,
    })
  }
})

it('brackets in texts are no levels', async () => {
  const content = `${'['.repeat(5000)}"\\${'{'.repeat(5000)}`
  const policy = await startPolicyEndpoint((response) => {
    response
      .writeHead(200, { 'content-type': 'text/event-stream' })
      .end(eventStream(chunk({ content }, 'stop')))
  })
  const { choices } = await policyOf(policy.url).complete({ messages })
  expect(choices[0]?.message.content).toBe(content)
})
