import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import {
  allowedAnswers,
  arbitraryRequests,
  documentedAnswers,
  mostlyValid,
  sendArbitrary,
  sendBytes,
} from '../../../test/kit/arbitrary-requests.ts'
import { runs } from '../../../test/kit/index.ts'
import { startServer } from './running-server.ts'

const numRuns = runs(200)

describe.each([undefined, 'key'])('a server with the key %s', (apiKey) => {
  it('answers every request with a documented status, and stays up', async () => {
    await using running = await startServer({ apiKey, maxConcurrent: 50, run: true })
    const { url, controller } = running
    const documented = await documentedAnswers(url, apiKey)
    const routes = new Set([...documented.keys()].map((route) => route.split(' ')[1] ?? ''))
    // A drain is permanent, so another test drains.
    routes.delete('/drain')
    const leased = controller.rolloutBody({ completion_callback_url: undefined, grade: true })
    // No body that /run accepts: a caller that disconnects before such an answer gets none.
    const bodies = mostlyValid(
      controller.rolloutBody(),
      leased,
      { session_server_instance_id: 'one' },
      { ids: ['r1'] },
      { prefix: 'r' },
    )
    const wrong = { method: 'POST', path: '/rollout', headers: [], body: Buffer.from('{}') }
    // Draws may all be wrong, or none of them.
    const right = { method: 'GET', path: '/health', headers: [], body: Buffer.from('') }
    const seen = new Set<number>()

    await fc.assert(
      fc.asyncProperty(arbitraryRequests([...routes], bodies), async (request) => {
        const status = await sendArbitrary(url, request)
        expect(allowedAnswers(documented, request)).toContain(status)
        seen.add(status ?? 0)
      }),
      { numRuns, examples: [[wrong], [right]] },
    )
    expect([...seen]).toEqual(expect.arrayContaining([200, apiKey === undefined ? 422 : 401]))
    expect((await fetch(`${url}/health`)).status).toBe(200)
  })

  it('survives every sequence of bytes', async () => {
    await using running = await startServer({ apiKey })
    const line = fc.constantFrom(
      'POST /rollout HTTP/1.1',
      'GET /health HTTP/1.1',
      'host: here',
      'host: there',
      'content-length: 5',
      'content-length: 50',
      'content-length: -1',
      'transfer-encoding: chunked',
      'expect: 100-continue',
      'expect: something',
      'upgrade: websocket',
      'connection: upgrade',
      '5',
      '{"a":1}',
      'ffffffffffffffff',
      '',
    )
    const bytes = fc.oneof(
      fc.array(line, { maxLength: 12 }).map((lines) => Buffer.from(lines.join('\r\n'))),
      fc.uint8Array({ maxLength: 500 }),
    )

    await fc.assert(
      fc.asyncProperty(bytes, async (sent) => {
        const status = await sendBytes(running.url, sent)
        // None when the bytes are not a complete request.
        expect([undefined, 100, 200, 400, 401, 404, 408, 417, 422, 431]).toContain(status)
      }),
      { numRuns },
    )
    expect((await fetch(`${running.url}/health`)).status).toBe(200)
  })
})

it('answers every request with a documented status while it is drained', async () => {
  await using running = await startServer()
  const { url, controller } = running
  const documented = await documentedAnswers(url)
  // First: callers that disconnect get no answer while a rollout is waited for.
  await fetch(`${url}/drain`, { method: 'POST', body: '{"timeout_sec":0}' })
  const routes = ['/drain', '/rollout', '/rollout/{rollout_id}/result']
  const bodies = mostlyValid({ timeout_sec: 0 }, controller.rolloutBody())
  const right = {
    method: 'POST',
    path: '/drain',
    headers: [],
    body: Buffer.from('{"timeout_sec":0}'),
  }
  const seen = new Set<number>()

  await fc.assert(
    fc.asyncProperty(arbitraryRequests(routes, bodies), async (request) => {
      const status = await sendArbitrary(url, request)
      expect(allowedAnswers(documented, request)).toContain(status)
      seen.add(status ?? 0)
    }),
    { numRuns: 70, examples: [[right]] },
  )
  expect(seen).toContain(200)
})
