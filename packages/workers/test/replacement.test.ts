import { expect, it } from 'vitest'

import { openPool, runRollout } from './pool-under-test.ts'

it('a worker that has ended after it finished a rollout is replaced at once, however often that happens', async () => {
  const { pool, ends } = await openPool({ workers: 1 })
  for (let n = 0; n < 2; n += 1) {
    const { completion } = await runRollout(pool, 'nothing')
    expect(completion.failure).toBeNull()
    for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
    await expect.poll(() => ends.length).toBe(n + 1)
  }
  expect(ends.map(({ restartMs }) => restartMs)).toEqual([0, 0])
})
