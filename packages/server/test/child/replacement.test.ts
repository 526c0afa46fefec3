import path from 'node:path'

import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { type Ended, openPool, runRollout } from './pool-under-test.ts'

it(
  'a worker that ends after it finished a rollout is replaced immediately every time',
  { tags: 'slow' },
  async () => {
    const { pool, ends } = await openPool({ workers: 1 })
    for (let n = 0; n < 2; n += 1) {
      const { completion } = await runRollout(pool, 'nothing')
      expect(completion.failure).toBeNull()
      for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
      await expect.poll(() => ends.length).toBe(n + 1)
    }
    expect(ends.map(({ restartMs }) => restartMs)).toEqual([0, 0])
  },
)

it(
  'a rollout whose worker ended gets its turn in another one, although others arrive there all the time',
  { tags: 'slow' },
  async () => {
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
  },
)

describe('a worker that has ended', { tags: 'slow' }, () => {
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

it(
  'the successor of a worker reports why it cannot load, and so do the rollouts that wait for it',
  { tags: 'slow' },
  async () => {
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
  },
)

it(
  'the start fails with the reason after a first worker was killed three times while it loaded',
  { tags: 'slow' },
  async () => {
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
  },
)

it(
  'a worker that is killed while it loads for the first time is started again',
  { tags: 'slow' },
  async () => {
    const folder = await temporaryFolder()
    const { pool, ends } = await openPool({
      workers: 1,
      args: ['is-killed', path.join(folder, 'starts'), '2'],
    })
    expect((await runRollout(pool, 'nothing')).completion.failure).toBeNull()
    expect(ends).toHaveLength(2)
    expect(pool.workers()).toMatchObject({ running: 1, restarts: { killed: 2 } })
  },
)

it(
  'a worker is replaced although onWorkerEnd throws, with a warning',
  { tags: 'slow' },
  async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    onTestFinished(() => warned.mockRestore())
    const { pool } = await openPool({
      workers: 1,
      onWorkerEnd: () => {
        throw new Error('no log')
      },
    })
    for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
    await expect.poll(() => pool.workers().restarts).toMatchObject({ killed: 1 })
    expect((await runRollout(pool, 'nothing')).completion.failure).toBeNull()
    expect(warned.mock.calls).toEqual([['onWorkerEnd failed: no log', 'OsmosisWarning']])
  },
)
