import { isRunning } from '../../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { openPolicy } from './pool-under-test.ts'
import { startParent } from './start-parent.ts'

it('workers exit with their parent, even when their code blocks', async () => {
  const policy = await openPolicy()
  const parent = startParent(policy.url, 'ask loop', 'wait')
  const pids = JSON.parse(await parent.next()) as number[]
  await policy.waitForRequest(0)
  expect(pids.map(isRunning)).toEqual([true, true])
  process.kill(parent.pid, 'SIGKILL')
  await expect.poll(() => pids.some(isRunning)).toBe(false)
})

it('SIGTERM of a terminal does not end the workers, so that the parent drains and exits with them', async () => {
  const gate = Promise.withResolvers<string>()
  const policy = await openPolicy(async () => gate.promise)
  const parent = startParent(policy.url, 'ask')
  const pids = JSON.parse(await parent.next()) as number[]
  await policy.waitForRequest(0)
  process.kill(-parent.pid, 'SIGTERM')
  expect(await parent.next()).toBe('parent got SIGTERM')
  gate.resolve('yes')
  expect(await parent.next()).toBe('success')
  expect(await parent.ended).toBe(0)
  expect(pids.some(isRunning)).toBe(false)
})
