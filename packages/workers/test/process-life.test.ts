import { expect, it } from 'vitest'

import { openPolicy } from './pool-under-test.ts'
import { isAlive, startFront } from './start-front.ts'

it('workers end with their front, also one whose code never lets go', async () => {
  const policy = await openPolicy()
  const front = startFront(policy.url, 'ask loop', 'wait')
  const pids = JSON.parse(await front.next()) as number[]
  await policy.waitForRequest(0)
  expect(pids.map(isAlive)).toEqual([true, true])
  process.kill(front.pid, 'SIGKILL')
  await expect.poll(() => pids.some(isAlive)).toBe(false)
})

it('SIGTERM of a terminal leaves the workers to the front, which drains, and ends with them', async () => {
  const gate = Promise.withResolvers<string>()
  const policy = await openPolicy(async () => gate.promise)
  const front = startFront(policy.url, 'ask')
  const pids = JSON.parse(await front.next()) as number[]
  await policy.waitForRequest(0)
  process.kill(-front.pid, 'SIGTERM')
  expect(await front.next()).toBe('front got SIGTERM')
  gate.resolve('yes')
  expect(await front.next()).toBe('success')
  expect(await front.ended).toBe(0)
  expect(pids.some(isAlive)).toBe(false)
})
