import type { RedisServer } from '../../../test/kit/index.ts'
import { Redis } from 'ioredis'
import { onTestFinished } from 'vitest'

import { ModelCallSlots } from '../src/worker/model-call-slots.ts'

export const endpoint = 'http://policy.test:8000/v1/chat/completions'
export const never: AbortSignal = new AbortController().signal

interface SlotsUnderTest {
  readonly slots: ModelCallSlots
  readonly leave: () => void
}

/** The slots as one worker uses them. */
export function slotsOf(
  redis: RedisServer,
  options: { limit?: number; holdMs?: number } = {},
): SlotsUnderTest {
  const { limit = 3, holdMs = 2000 } = options
  const connection = new Redis(redis.url, { retryStrategy: () => 50, maxRetriesPerRequest: 0 })
  connection.on('error', () => undefined)
  const slots = new ModelCallSlots(connection, { prefix: 'osmosis', limit, holdMs })
  const leave = (): void => {
    slots.close()
    connection.disconnect()
  }
  onTestFinished(leave)
  return { slots, leave }
}
