// @module-tag nightly
import { existsSync } from 'node:fs'
import path from 'node:path'

import { onlyIf, temporaryFolder } from '../../../../test/kit/index.ts'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { endTwoWorkers, openPool, runRollout, sharedPool } from './pool-under-test.ts'

// A busy machine needs time to fill a heap.
const shared = sharedPool({ heapMegabytes: 64, stallTimeoutSeconds: 100 })

it('workers share the memory of the container, not that of its machine', async () => {
  const limit = vi.spyOn(process, 'constrainedMemory').mockReturnValue(256 * 2 ** 20)
  onTestFinished(() => limit.mockRestore())
  const { pool } = await openPool({ workers: 2, stallTimeoutSeconds: 100 })
  const { completion } = await runRollout(pool, 'allocate')
  expect(completion.failure?.message).toMatch(/probably because its heap of 96 MiB was full; /)
})

it('a worker is killed before it uses all memory of the container', async () => {
  const limit = vi.spyOn(process, 'constrainedMemory').mockReturnValue(256 * 2 ** 20)
  onTestFinished(() => limit.mockRestore())
  const { pool } = await openPool({ workers: 1, stallTimeoutSeconds: 100 })
  const { completion } = await runRollout(pool, 'buffers')
  expect(completion.failure?.message).toMatch(
    /was ended because it used more than 448 MiB of memory; /,
  )
})

it('an error of 10 MB that ends its worker is truncated as well', async () => {
  const { pool, ends } = await shared()
  const { completion } = await runRollout(pool, 'throw-much-from-outside')
  expect(completion.failure?.message).toMatch(/ ended because of an uncaught error: e{8000}/)
  for (const { what } of ends) expect(what.length).toBeLessThan(10_000)
})

it('a worker that cannot read its memory use continues', async () => {
  const { pool, ends } = await openPool({ workers: 1, stallTimeoutSeconds: 10 })
  const { completion } = await runRollout(pool, 'hide-memory')
  expect(completion.failure).toBeNull()
  expect(ends).toEqual([])
})

describe('a rollout that ends its worker', () => {
  onlyIf(process.platform === 'linux', 'a Linux system').it(
    'by allocating, and is stopped before its heap is full, fails with how much memory it used',
    async () => {
      const { pool } = await openPool({ heapMegabytes: 100, stallTimeoutSeconds: 2 })
      const { completion } = await runRollout(pool, 'hoard')
      expect(completion.failure?.message).toMatch(
        /^the worker process blocked its event loop for more than 2 s, and used \d{3,} MiB of memory; /,
      )
    },
  )

  it('by closing the files of Node.js does not fail with a full heap', async () => {
    const pool = await openPool({ heapMegabytes: 1000, stallTimeoutSeconds: 100 })
    const text =
      /^the worker process aborted \(SIGABRT\), because Node\.js could not continue, .* stderr has the reason; /
    expect(await endTwoWorkers(pool, 'close-files')).toMatch(text)
    expect(pool.pool.workers().restarts).toMatchObject({ crash: 2, memory: 0 })
  })

  it('by blocking its event loop gets no third worker, and fails with what happened', async () => {
    const pool = await openPool({ stallTimeoutSeconds: 2 })
    const text = /^the worker process blocked its event loop for more than 2 s; /
    expect(await endTwoWorkers(pool, 'loop')).toMatch(text)
  })

  it.each([
    [
      'allocate',
      /^the worker process aborted \(SIGABRT\), probably because its heap of 64 MiB was full; /,
    ],
    ['buffers', /^the worker process was ended because it used more than 384 MiB of memory; /],
    ['kill', /^the worker process was killed by SIGKILL, /],
    ['exit-at-once', /^the worker process exited with code 3; /],
    [
      'abort',
      /^the worker process ended: process\.abort was called \(at \S*test\/child\/harmful-worker\.ts:\d+:\d+\); /,
    ],
    [
      'close-channel',
      /^the worker process was ended because it closed the channel to its parent; /,
    ],
    ['garble-last-words', /^the worker process exited with code 4; /],
    [
      'exit-from-outside',
      /^the worker process exited with code 0: process\.exit was called \(at \S*test\/child\/harmful-worker\.ts:\d+:\d+\); /,
    ],
  ])('by %s gets no third worker, and fails with what happened', async (harm, text) => {
    expect(await endTwoWorkers(await shared(), harm)).toMatch(text)
  })
})

it('a rollout that has not called the policy moves from a killed worker to another, within the same deadline', async () => {
  const { pool } = await openPool({ workers: 1 })
  const [first] = pool.workerPids
  let phases = 0
  const ended = runRollout(
    pool,
    'wait',
    { agentTimeoutSeconds: 3 },
    {
      phaseChanged: () => {
        phases += 1
        process.kill(first ?? 0, 'SIGKILL')
      },
    },
  )
  const { completion } = await ended
  expect(completion.failure?.message).toMatch(/^workflow exceeded its 3s deadline/)
  expect(phases).toBe(1)
  expect(pool.workers().restarts).toMatchObject({ killed: 1, crash: 0, stall: 0 })
})

it('rollouts beside one that ends two workers are run again and succeed', async () => {
  const { pool, ends } = await openPool({ workers: 2 })
  const others = Array.from({ length: 40 }, async () =>
    // A grading that is lost with its worker fails instead.
    runRollout(pool, 'pause', { grade: false }),
  )
  const bad = ['segfault', 'kill', 'segfault'].map(async (harm) =>
    runRollout(pool, `pause ${harm}`),
  )
  for (const { completion } of await Promise.all(others)) expect(completion.failure).toBeNull()
  for (const { completion } of await Promise.all(bad)) {
    expect(completion.failure?.message).toMatch(/it is the second worker that was lost/)
  }
  expect(ends.length).toBeGreaterThan(3)
})

it('code that ignores its signal does not delay its deadline or its cancel', async () => {
  const { pool } = await openPool({ workers: 2, stallTimeoutSeconds: 60 })
  const late = runRollout(pool, 'loop', { agentTimeoutSeconds: 1 })
  const cancelled = runRollout(
    pool,
    'loop',
    { rolloutId: 'c' },
    {
      phaseChanged: () => void setTimeout(() => pool.cancel({ ids: ['c'] }), 100),
    },
  )
  expect((await late).completion.failure?.message).toMatch(/^workflow exceeded its 1s deadline/)
  expect((await cancelled).completion.failure?.message).toBe('cancelled')
  // The workers would not receive the message to exit.
  for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
})

it('a rollout that a worker never started is not suspected', async () => {
  const folder = await temporaryFolder()
  const { pool, ends } = await openPool({
    workers: 1,
    args: ['counts', path.join(folder, 'kills')],
  })
  // The first worker ends before the rollout starts, the second one with it, and the third one runs it.
  const phaseChanged = (): void => {
    for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
  }
  const { completion } = await runRollout(pool, 'kill-once', { grade: false }, { phaseChanged })
  expect(completion.failure).toBeNull()
  expect(ends).toMatchObject([{ rollouts: 1 }, { rollouts: 1 }])
})

it.each([
  ['unloadable', { message: 'this entrypoint has a mistake', name: 'SyntaxError' }],
  [
    'never-loads',
    {
      code: 'invalid_entrypoint',
      message:
        'Before it was ready, the worker process exited with code 13: its entrypoint awaits something that can never happen.',
    },
  ],
])('a pool whose module is %s fails to start with the reason', async (how, error) => {
  const opening = openPool({ args: [how], workers: 2 })
  await expect(opening).rejects.toMatchObject(error)
})

it('rollouts of a worker that ended get their turn, however many others arrive meanwhile', async () => {
  const calls = path.join(await temporaryFolder(), 'calls')
  const { pool, ends } = await openPool({ args: ['counts', calls] })
  const first = runRollout(pool, 'close-channel-once pause', { grade: false })
  await expect.poll(() => existsSync(calls)).toBe(true)
  // They arrive before it is known what was in the worker, and keep its successor busy from then on.
  const others: Promise<unknown>[] = []
  let passed = 0
  const pass = async (): Promise<void> => {
    await runRollout(pool, 'pause', { grade: false })
    passed += 1
  }
  const stream = setInterval(() => others.push(pass()), 5)
  const { completion } = await first.finally(() => clearInterval(stream))
  expect([completion.failure, passed]).toEqual([null, 0])
  await Promise.all(others)
  expect(ends).toHaveLength(1)
})

it('a killed worker does not lose results that have already arrived', async () => {
  const { pool } = await shared()
  const { completion, grading } = await runRollout(
    pool,
    'nothing',
    {},
    {
      workflowFinished: async () => {
        for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
        // The next one runs in the successor of the worker.
        await runRollout(pool, 'nothing')
      },
    },
  )
  expect(completion.status).toBe('success')
  expect(grading?.failure?.message).toMatch(/^the worker process was killed by SIGKILL/)
  expect(grading?.samples.size).toBe(1)
})
