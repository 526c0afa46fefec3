import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import {
  allowedAnswers,
  arbitraryRequests,
  documentedAnswers,
  mostlyValid,
  sendArbitrary,
} from '../../../test/kit/arbitrary-requests.ts'
import { runs } from '../../../test/kit/index.ts'
import { loopOf, startApp } from './running-app.ts'

it.each([undefined, 'key'])(
  'answers every request with a documented status, and stays up (key: %s)',
  async (apiKey) => {
    await using running = await startApp({ apiKey, loop: loopOf((ctx) => ctx.complete([])) })
    const { url, trainer } = running
    const documented = await documentedAnswers(url, apiKey)
    const routes = [...documented.keys()].map((route) => route.split(' ')[1] ?? '')
    const keyed = { max_turns: 3, metadata: { a: 1 }, api_key: 'k', idempotency_key: 'i' }
    const bodies = mostlyValid(trainer.initBody(), trainer.initBody(keyed))
    const wrong = { method: 'POST', path: '/v1/rollout/init', headers: [], body: Buffer.from('{}') }
    // Draws may all be wrong, or none of them.
    const right = { method: 'GET', path: '/health', headers: [], body: Buffer.from('') }
    const seen = new Set<number>()

    await fc.assert(
      fc.asyncProperty(arbitraryRequests(routes, bodies), async (request) => {
        const status = await sendArbitrary(url, request)
        const allowed = new Set(allowedAnswers(documented, request))
        // Documented for loops that have no usable tools; this one needs none.
        allowed.delete(500)
        // Without a key the platform has nothing to ask for.
        if (apiKey === undefined && request.path.startsWith('/platform/health')) allowed.add(404)
        expect(allowed).toContain(status)
        seen.add(status ?? 0)
      }),
      { numRuns: runs(150), examples: [[wrong], [right]] },
    )
    expect([...seen]).toEqual(expect.arrayContaining([200, apiKey === undefined ? 422 : 401]))
    expect(await running.health()).toMatchObject({ status: 'healthy' })
  },
)
