import { setTimeout as sleep } from 'node:timers/promises'

import { startRedis, withPrograms } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { endpoint, never, slotsOf } from './slots-under-test.ts'

const { it } = withPrograms('redis-server')

it('keeps the slot of a long call', async () => {
  const redis = await startRedis()
  // Long enough that a busy machine renews it in time.
  const holdMs = 6_000
  const { slots } = slotsOf(redis, { limit: 1, holdMs })
  await slots.begin({ endpoint, signal: never })
  const second = slots.begin({ endpoint, signal: never })
  await expect(Promise.race([second, sleep(holdMs * 1.5, 'waits')])).resolves.toBe('waits')
})
