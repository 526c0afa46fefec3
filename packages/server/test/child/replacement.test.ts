import path from 'node:path'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { type Ended, openPool, runRollout } from './pool-under-test.ts'

it('a worker that ends after it finished a rollout is replaced immediately every time', async () => {
  const { pool, ends } = await openPool({ workers: 1 })
  for (let n = 0; n < 2; n += 1) {
    const { completion } = await runRollout(pool, 'nothing')
    expect(completion.failure).toBeNull()
    for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
    await expect.poll(() => ends.length).toBe(n + 1)
  }
  expect(ends.map(({ restartMs }) => restartMs)).toEqual([0, 0])
})

it('a rollout whose worker ended gets its turn in another one, although others arrive there all the time', async () => {
  const folder = await temporaryFolder()
  const args = ['has-no-successor', path.join(folder, 'kills'), path.join(folder, 'loads')]
  const { pool } = await openPool({ workers: 2, args })
  const enough = 500
  const others: Promise<Ended>[] = []
  const next = (): unknown => others.push(runRollout(pool, 'pause pause pause'))
  next()
  const coming = setInterval(() => others.length < enough && next(), 20)
  const { completion } = await runRollout(pool, 'kill-once')
  clearInterval(coming)
  expect(completion.failure).toBeNull()
  expect(others.length).toBeLessThan(enough)
  for (const other of await Promise.all(others)) expect(other.completion.failure).toBeNull()
})
