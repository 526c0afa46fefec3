import { expect, it } from 'vitest'

import { ProviderStandIn } from '../../../test/kit/provider-stand-in.ts'
import { endpointModel } from '../src/judge/endpoint-model.ts'

const body = { messages: [{ role: 'user', content: 'Hello' }] }

it('requests its own model, and forwards the answer with its retry delay', async () => {
  await using peer = await new ProviderStandIn().start()
  const busy = { error: { message: 'busy' } }
  peer.answers.push({ status: 429, body: busy, headers: { 'retry-after-ms': '700', 'x-own': '1' } })
  await using model = endpointModel({ baseUrl: `${peer.url}/v1`, model: 'm1', apiKey: 'key-1' })
  const answer = await model.respond({ body, signal: new AbortController().signal })
  expect([answer.status, await answer.json()]).toEqual([429, busy])
  expect([answer.headers.get('retry-after-ms'), answer.headers.get('x-own')]).toEqual(['700', null])
  expect(peer.requests).toMatchObject([
    {
      path: '/v1/chat/completions',
      headers: { authorization: 'Bearer key-1' },
      body: { ...body, model: 'm1' },
    },
  ])
})

it('rejects with the reason of the signal, and answers 502 when nothing listens', async () => {
  await using model = endpointModel({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm1' })
  const reason = new Error('enough')
  await expect(model.respond({ body, signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  const answer = await model.respond({ body, signal: new AbortController().signal })
  expect([answer.status, await answer.json()]).toMatchObject([
    502,
    { error: { code: 'policy_unreachable' } },
  ])
})
