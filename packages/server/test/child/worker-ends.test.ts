import { existsSync } from 'node:fs'
import path from 'node:path'

import type { RolloutEvent } from '@osmosis/protocol'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { onlyIf, temporaryFolder } from '../../../../test/kit/index.ts'
import { endTwoWorkers, openPolicy, openPool, runRollout, sharedPool } from './pool-under-test.ts'

const shared = sharedPool({
  env: { ...process.env, OSMOSIS_ROLLOUT_SERVER_API_KEY: 'server-key', OF_THE_USER: 'yes' },
})

describe('a rollout that harms its own process', () => {
  it.each([
    ['exit', /^the workflow called process\.exit\(0\) \(at \S*test\/child\/harmful-worker\.ts:/],
    ['throw', /^the workflow threw an uncaught error: thrown in a timer \(at /],
  ])('by %s fails alone, and its worker continues', async (harm, text) => {
    const { pool, ends } = await shared()
    const harmless = runRollout(pool, 'nothing')
    const { completion } = await runRollout(pool, harm)
    expect(completion.failure?.message).toMatch(text)
    expect((await harmless).grading?.status).toBe('success')
    expect(ends).toEqual([])
  })
})

/** Blocks this process without using the processor. */
function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
}

it.each(['speak-to-parent', 'leave-parent'])(
  'user code has no access to the channel between worker and parent: %s does nothing',
  async (does) => {
    const { pool, ends } = await shared()
    const { completion, pid } = await runRollout(pool, does)
    expect(completion.status).toBe('success')
    expect((await runRollout(pool, 'nothing')).pid).toBe(pid)
    expect(ends).toEqual([])
  },
)

it('user code that removes all listeners of its process removes only its own', async () => {
  const { pool, ends } = await shared()
  const { completion, pid } = await runRollout(pool, 'remove-listeners')
  expect(completion.failure).toBeNull()
  const thrown = await runRollout(pool, 'throw')
  expect(thrown.completion.failure?.message).toMatch(/^the workflow threw an uncaught error/)
  expect((await runRollout(pool, 'nothing')).pid).toBe(pid)
  expect(ends).toEqual([])
})

it('an error of 10 MB is truncated before it is sent to the parent', async () => {
  const { pool } = await shared()
  const { completion } = await runRollout(pool, 'throw-much')
  const cause = completion.failure?.cause as Error | undefined
  const { message = '', stack = '' } = cause ?? {}
  expect(message).toMatch(/^e{60000}/)
  expect(message.length + stack.length).toBeLessThan(150_000)
})

it('an error with throwing getters fails its rollout', async () => {
  const { pool } = await shared()
  const { completion } = await runRollout(pool, 'throw-unreadable')
  expect(completion.failure).toMatchObject({
    message: 'thrown by run(): something without a message was thrown',
    category: 'agent_error',
  })
})

it.each([
  ['throw-unsendable', 'not to be sent'],
  ['throw-shared', '0,0,0,0,0,0,0,0'],
  ['throw-revoked', 'something without a message was thrown'],
])('an error that cannot be sent to the parent fails its rollout: %s', async (harm, message) => {
  const { pool } = await shared()
  const { completion, grading } = await runRollout(pool, harm)
  expect(completion.failure?.message).toContain(message)
  expect(grading).toBeUndefined()
  expect((await completion.partialSamples)?.size).toBe(0)
})

it(
  'a row that is nested too deeply for a worker fails alone, also while it waits for one',
  { tags: 'slow' },
  async () => {
    const { pool, ends } = await shared()
    const metadata = JSON.parse(`${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`) as Record<
      string,
      unknown
    >
    const text = 'The prompt or the metadata is nested too deeply to be sent to a worker.'
    const rows = async (): Promise<(string | undefined)[]> => {
      const all = [null, metadata, null].map(async (row) =>
        runRollout(pool, 'nothing', { metadata: row }),
      )
      return (await Promise.all(all)).map(({ completion }) => completion.failure?.message)
    }
    expect(await rows()).toEqual([undefined, text, undefined])
    expect(ends).toEqual([])
    for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
    await expect.poll(() => ends.length).toBe(1)
    expect(await rows()).toEqual([undefined, text, undefined])
    expect(ends).toHaveLength(1)
  },
)

describe('a rollout that ends its worker', () => {
  it('by a crash gets no third worker, and fails with what happened', async () => {
    const text = /^the worker process crashed in native code \(SIGSEGV\); /
    expect(await endTwoWorkers(await shared(), 'segfault')).toMatch(text)
  })

  it('after it called the policy fails immediately, and makes no second call', async () => {
    const policy = await openPolicy()
    const { pool, ends } = await shared()
    const { completion } = await runRollout(pool, 'ask segfault', {
      chatCompletionsUrl: policy.url,
    })
    expect(completion.failure?.message).toBe(
      'the worker process crashed in native code (SIGSEGV); the rollout had called the policy, so it is not executed again: that would mix two trajectories under one id',
    )
    expect(policy.requests).toHaveLength(1)
    expect(ends).toMatchObject([{ rollouts: 1 }])
  })

  it('in its grader still reports the success of the workflow and the samples', async () => {
    const { pool } = await shared()
    const { completion, grading } = await runRollout(pool, 'nothing', { label: 'segfault' })
    expect(completion.status).toBe('success')
    expect(grading?.failure?.message).toMatch(
      /^the worker process crashed .*; the samples of the rollout were in it/,
    )
    expect([...(grading?.samples.values() ?? [])]).toMatchObject([{ reward: null, messages: [{}] }])
  })
})

it('a worker that ends no rollout within its limit is replaced, with a log line', async () => {
  const policy = await openPolicy()
  const { pool, ends } = await openPool({ progressTimeoutSeconds: 0.5 })
  const asked = { chatCompletionsUrl: policy.url }
  const { completion } = await runRollout(pool, 'ask wait', asked)
  const what = 'the worker process ended no rollout for more than 0.5 s'
  expect(completion.failure?.message).toMatch(what)
  // On a busy machine the first one may not even have called the policy, so that there is a second one.
  expect(ends.length).toBeGreaterThan(0)
  for (const end of ends) expect(end).toMatchObject({ what, rollouts: 1 })
  await expect.poll(() => pool.workers().restarts).toMatchObject({ stuck: ends.length })
})

onlyIf(existsSync('/proc/vmstat'), 'a Linux system').it(
  'a worker that was killed from outside is not reported as out of memory',
  { tags: 'slow' },
  async () => {
    const { pool, ends } = await shared()
    for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
    await expect.poll(() => ends.length).toBe(1)
    expect(ends[0]?.what).toBe(
      'the worker process was killed by SIGKILL, which the server did not send',
    )
  },
)

it('a worker does not get the key of the server', async () => {
  const { pool } = await shared()
  const variables = await pool.ask('variables')
  expect(variables).toContain('OF_THE_USER')
  expect(variables).not.toContain('OSMOSIS_ROLLOUT_SERVER_API_KEY')
})

it('another worker answers questions after one was killed', { tags: 'slow' }, async () => {
  const { pool } = await shared()
  expect(await pool.ask('who?')).toMatchObject({ question: 'who?' })
  await expect(pool.ask('die')).rejects.toMatchObject({ code: 'worker_lost' })
  expect(await pool.ask('who?')).toMatchObject({ question: 'who?' })
})

it('refuses a reward that arrives after its rollout was cancelled', async () => {
  const { pool } = await shared()
  const ended = runRollout(pool, 'nothing', { rolloutId: 'late' }, {}, ({ type }) => {
    if (type !== 'workflow') return
    // The worker grades while this process is blocked, which then cancels first.
    setImmediate(() => {
      block(300)
      expect(pool.cancel({ ids: ['late'] }).get('late')).toBe('cancelled_running')
    })
  })
  const { grading } = await ended
  expect(grading?.failure?.message).toBe('cancelled')
  expect(pool.status('late')).toMatchObject({ status: 'cancelled', reward: null })
})

it('refuses a success that arrives after its rollout was cancelled, with and without grading', async () => {
  const { pool } = await shared()
  for (const grade of [true, false]) {
    const rolloutId = `late, ${grade}`
    const { completion, grading } = await runRollout(
      pool,
      'nothing',
      { rolloutId, grade },
      {},
      ({ type }) => {
        if (type !== 'started') return
        // The worker runs it while this process is blocked, which then cancels first.
        setImmediate(() => {
          block(300)
          expect(pool.cancel({ ids: [rolloutId] }).get(rolloutId)).toBe('cancelled_running')
        })
      },
    )
    expect(completion.failure?.message).toBe('cancelled')
    expect(grading).toBeUndefined()
    expect(pool.status(rolloutId)).toMatchObject({ status: 'cancelled', reward: null })
  }
})

it('a pool whose processes the system does not start blames no entrypoint', async () => {
  await expect(openPool({ cwd: '/a-folder-that-is-not-there' })).rejects.toMatchObject({
    code: 'worker_lost',
    message: expect.stringMatching(
      /^A worker was started 3 times, but never became ready: the worker process could not be started: /,
    ),
  })
})

it('a pool whose module exits its process fails to start with the reason', async () => {
  await expect(openPool({ args: ['exits'] })).rejects.toMatchObject({
    code: 'invalid_entrypoint',
    message: expect.stringMatching(
      /^Before it was ready, the worker process exited with code 7: process\.exit was called \(at .*harmful-worker/,
    ),
  })
})

// A busy machine needs time to fill a heap.
const small = sharedPool({ heapMegabytes: 64, stallTimeoutSeconds: 100 })

it(
  'workers share the memory of the container, not that of its machine',
  { tags: 'nightly' },
  async () => {
    const limit = vi.spyOn(process, 'constrainedMemory').mockReturnValue(256 * 2 ** 20)
    onTestFinished(() => limit.mockRestore())
    const { pool } = await openPool({ workers: 2, stallTimeoutSeconds: 100 })
    const { completion } = await runRollout(pool, 'allocate')
    expect(completion.failure?.message).toMatch(/probably because its heap of 96 MiB was full; /)
  },
)

it(
  'a worker is killed before it uses all memory of the container',
  { tags: 'nightly' },
  async () => {
    const limit = vi.spyOn(process, 'constrainedMemory').mockReturnValue(256 * 2 ** 20)
    onTestFinished(() => limit.mockRestore())
    const { pool } = await openPool({ workers: 1, stallTimeoutSeconds: 100 })
    const { completion } = await runRollout(pool, 'buffers')
    expect(completion.failure?.message).toMatch(
      /was ended because it used more than 448 MiB of memory; /,
    )
  },
)

it('an error of 10 MB that ends its worker is truncated as well', { tags: 'nightly' }, async () => {
  const { pool, ends } = await small()
  const { completion } = await runRollout(pool, 'throw-much-from-outside')
  expect(completion.failure?.message).toMatch(/ ended because of an uncaught error: e{8000}/)
  for (const { what } of ends) expect(what.length).toBeLessThan(10_000)
})

it('a worker that cannot read its memory use continues', { tags: 'nightly' }, async () => {
  const { pool, ends } = await openPool({ workers: 1, stallTimeoutSeconds: 10 })
  const { completion } = await runRollout(pool, 'hide-memory')
  expect(completion.failure).toBeNull()
  expect(ends).toEqual([])
})

describe('a rollout that ends its worker', { tags: 'nightly' }, () => {
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
    expect(await endTwoWorkers(await small(), harm)).toMatch(text)
  })
})

it(
  'a rollout that has not called the policy moves from a killed worker to another, within the same deadline',
  { tags: 'nightly' },
  async () => {
    const { pool } = await openPool({ workers: 1 })
    const [first] = pool.workerPids
    let phases = 0
    const ended = runRollout(pool, 'wait', { agentTimeoutSeconds: 3 }, {}, ({ type }) => {
      if (type !== 'started') return
      phases += 1
      process.kill(first ?? 0, 'SIGKILL')
    })
    const { completion } = await ended
    expect(completion.failure?.message).toMatch(/^workflow exceeded its 3s deadline/)
    expect(phases).toBe(1)
    expect(pool.workers().restarts).toMatchObject({ killed: 1, crash: 0, stall: 0 })
  },
)

it(
  'rollouts beside one that ends two workers are run again and succeed',
  { tags: 'nightly' },
  async () => {
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
  },
)

it(
  'code that ignores its signal does not delay its deadline or its cancel',
  { tags: 'nightly' },
  async () => {
    const { pool } = await openPool({ workers: 2, stallTimeoutSeconds: 60 })
    const late = runRollout(pool, 'loop', { agentTimeoutSeconds: 1 })
    const cancelled = runRollout(pool, 'loop', { rolloutId: 'c' }, {}, ({ type }) => {
      if (type === 'started') setTimeout(() => pool.cancel({ ids: ['c'] }), 100)
    })
    expect((await late).completion.failure?.message).toMatch(/^workflow exceeded its 1s deadline/)
    expect((await cancelled).completion.failure?.message).toBe('cancelled')
    // The workers would not receive the message to exit.
    for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
  },
)

it('a rollout that a worker never started is not suspected', { tags: 'nightly' }, async () => {
  const folder = await temporaryFolder()
  const { pool, ends } = await openPool({
    workers: 1,
    args: ['counts', path.join(folder, 'kills')],
  })
  // The first worker ends before the rollout starts, the second one with it, and the third one runs it.
  const kill = ({ type }: RolloutEvent): void => {
    if (type !== 'started') return
    for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
  }
  const { completion } = await runRollout(pool, 'kill-once', { grade: false }, {}, kill)
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
])(
  'a pool whose module is %s fails to start with the reason',
  { tags: 'nightly' },
  async (how, error) => {
    const opening = openPool({ args: [how], workers: 2 })
    await expect(opening).rejects.toMatchObject(error)
  },
)

it(
  'rollouts of a worker that ended get their turn, however many others arrive meanwhile',
  { tags: 'nightly' },
  async () => {
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
  },
)

it(
  'a killed worker does not lose results that have already arrived',
  { tags: 'nightly' },
  async () => {
    const { pool } = await small()
    const { completion, grading } = await runRollout(pool, 'nothing', {}, {}, async ({ type }) => {
      if (type !== 'workflow') return
      for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
      // The next one runs in the successor of the worker.
      await runRollout(pool, 'nothing')
    })
    expect(completion.status).toBe('success')
    expect(grading?.failure?.message).toMatch(/^the worker process was killed by SIGKILL/)
    expect(grading?.samples.size).toBe(1)
  },
)
