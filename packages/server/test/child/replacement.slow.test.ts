// @module-tag slow
import path from 'node:path'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { describe, expect, it } from 'vitest'

import { openPool, runRollout } from './pool-under-test.ts'

describe('a worker that has ended', () => {
  it('is replaced immediately when it had a suspected rollout, which is the likely cause', async () => {
    const { pool, ends } = await openPool({ workers: 1 })
    await runRollout(pool, 'nothing')
    const harmful = Array.from({ length: 4 }, async () => runRollout(pool, 'pause kill'))
    const harmless = Array.from({ length: 4 }, async () => runRollout(pool, 'pause pause'))
    for (const { completion } of await Promise.all(harmful)) {
      expect(completion.failure?.message).toMatch(/it is the second worker that was lost/)
    }
    for (const { completion } of await Promise.all(harmless)) expect(completion.failure).toBeNull()
    expect(ends.length).toBeGreaterThan(4)
    expect(ends.filter(({ restartMs }) => restartMs > 0)).toEqual([])
  })

  it('before it finished a rollout is replaced after increasing pauses', async () => {
    const { ends } = await openPool({ workers: 1, args: ['dies-young'] })
    await expect.poll(() => ends.length).toBeGreaterThan(2)
    expect(ends.slice(0, 3).map(({ restartMs }) => restartMs)).toEqual([250, 500, 1000])
  })
})

it('the successor of a worker reports why it cannot load, and so do the rollouts that wait for it', async () => {
  const folder = await temporaryFolder()
  const { pool, ends } = await openPool({
    workers: 1,
    args: ['loads-once', path.join(folder, 'loads')],
  })
  for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
  await expect.poll(() => ends.length).toBe(1)
  const { completion } = await runRollout(pool, 'nothing')
  expect(completion.failure?.message).toBe('loaded a second time')
  expect(ends[1]?.what).toBe('the worker process could not load: loaded a second time')
  expect(pool.workers().restarts).toMatchObject({ killed: 1, start: expect.any(Number) })
})

it('the start fails with the reason after a first worker was killed three times while it loaded', async () => {
  const folder = await temporaryFolder()
  const opening = openPool({
    workers: 1,
    args: ['is-killed', path.join(folder, 'starts'), '1000'],
  })
  await expect(opening).rejects.toMatchObject({
    code: 'worker_lost',
    message: expect.stringMatching(
      /^A worker was started 3 times, but never became ready: the worker process was killed by SIGKILL, /,
    ) as string,
  })
})

it('a worker that is killed while it loads for the first time is started again', async () => {
  const folder = await temporaryFolder()
  const { pool, ends } = await openPool({
    workers: 1,
    args: ['is-killed', path.join(folder, 'starts'), '2'],
  })
  expect((await runRollout(pool, 'nothing')).completion.failure).toBeNull()
  expect(ends).toHaveLength(2)
  expect(pool.workers()).toMatchObject({ running: 1, restarts: { killed: 2 } })
})
