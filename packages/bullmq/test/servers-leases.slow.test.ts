import { setTimeout as sleep } from 'node:timers/promises'

import { withPrograms } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { startServers } from './servers-under-test.ts'

const { it } = withPrograms('redis-server')

it('no lease expires because Redis was unreachable for longer than the lease', async () => {
  const leases = { waitSeconds: 0.1, leaseSeconds: 3 }
  const { a, b, redis, controller } = await startServers({ aof: true, leases })
  controller.hanging = true
  const handle = await a.start()
  await handle.until((status) => status === 'running')
  await redis.kill()
  expect((await handle.read()).status).toBe(503)
  await sleep(3_000)
  await redis.restart()
  // Long enough for both servers to check.
  await sleep(1_000)

  await expect.poll(async () => (await b.handle(handle).read()).status).toBe(200)
  expect(await handle.once()).toMatchObject({ status: 'running' })
})
