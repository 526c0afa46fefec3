import * as fc from 'fast-check'
import { post } from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { loopOf, startApp } from './running-app.ts'

// Hundreds of requests one after the other: on a busy machine they take their time.
const timeout = 60_000

it('answers every body for init with a documented status, and stays up', { timeout }, async () => {
  await using running = await startApp({ loop: loopOf((ctx) => ctx.complete([])) })
  // The server may connect only to the trainer of this test.
  const value = fc.jsonValue({ maxDepth: 4 })
  const valid = running.trainer.initBody({
    max_turns: 3,
    max_tokens_total: 100,
    metadata: { a: 1 },
    api_key: 'k',
    idempotency_key: 'i',
  })
  const fields = Object.entries(valid).map(
    ([key, good]) => [key, fc.oneof({ weight: 8, arbitrary: fc.constant(good) }, value)] as const,
  )
  const mostlyValid = fc.record(Object.fromEntries(fields), {
    requiredKeys: ['rollout_id', 'server_url', 'messages', 'completion_params'],
  })
  const seen = new Set<number>()

  await fc.assert(
    fc.asyncProperty(fc.oneof(mostlyValid, value, fc.string(), fc.json()), async (body) => {
      const response = await post(`${running.url}/v1/rollout/init`, body)
      await response.body?.cancel()
      seen.add(response.status)
    }),
    { numRuns: 100 },
  )
  expect(seen).toStrictEqual(new Set([202, 422]))
  expect(await running.health()).toMatchObject({ status: 'healthy' })
})
