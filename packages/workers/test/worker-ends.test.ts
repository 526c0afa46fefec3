import path from 'node:path'

import { onlyIf, temporaryFolder } from '@osmosis/testing/kit'
import { createWorkerPool, type WorkerPoolBackend } from '@osmosis/workers'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { harmfulWorker, openPolicy, openPool, runRollout } from './pool-under-test.ts'

/** Why workers were replaced, and how often. */
function replaced(pool: WorkerPoolBackend): [string, number][] {
  return Object.entries(pool.workers().restarts).filter(([, times]) => times > 0)
}

describe('a rollout that harms its own process', () => {
  it.each([
    ['exit', /^the workflow called process\.exit\(0\) \(at \S*test\/harmful-worker\.ts:/],
    ['throw', /^the workflow threw an error that nobody caught: thrown in a timer \(at /],
  ])('by %s fails alone, and its worker goes on', async (harm, text) => {
    const { pool, ends } = await openPool({ workers: 1 })
    const harmless = runRollout(pool, 'nothing')
    const { completion } = await runRollout(pool, harm)
    expect(completion.failure?.message).toMatch(text)
    expect((await harmless).grading?.status).toBe('success')
    expect(ends).toEqual([])
  })
})

it.each(['speak-to-parent', 'leave-parent'])(
  'user code cannot get at the channel between worker and front: %s does nothing',
  async (does) => {
    const { pool, ends } = await openPool({ workers: 1 })
    const { completion, pid } = await runRollout(pool, does)
    expect(completion.status).toBe('success')
    expect((await runRollout(pool, 'nothing')).pid).toBe(pid)
    expect(ends).toEqual([])
  },
)

it('user code that removes all listeners of its process removes its own', async () => {
  const { pool, ends } = await openPool({ workers: 1 })
  const { completion, pid } = await runRollout(pool, 'remove-listeners')
  expect(completion.failure).toBeNull()
  const thrown = await runRollout(pool, 'throw')
  expect(thrown.completion.failure?.message).toMatch(/^the workflow threw an error that nobody/)
  expect((await runRollout(pool, 'nothing')).pid).toBe(pid)
  expect(ends).toEqual([])
})

it('workers share the memory that the container has, not that of its machine', async () => {
  const limit = vi.spyOn(process, 'constrainedMemory').mockReturnValue(256 * 2 ** 20)
  onTestFinished(() => limit.mockRestore())
  const { pool } = await openPool({ workers: 2, stallTimeoutSeconds: 100 })
  const { completion } = await runRollout(pool, 'allocate')
  expect(completion.failure?.message).toMatch(/probably because its heap of 96 MiB was full; /)
})

it('a worker is ended before it takes what the whole container has', async () => {
  const limit = vi.spyOn(process, 'constrainedMemory').mockReturnValue(256 * 2 ** 20)
  onTestFinished(() => limit.mockRestore())
  const { pool } = await openPool({ workers: 1, stallTimeoutSeconds: 100 })
  const { completion } = await runRollout(pool, 'buffers')
  expect(completion.failure?.message).toMatch(
    /was ended because it took more than 448 MiB of memory; /,
  )
})

it('an error of 10 MB is cut before it comes to the front, which would be busy reading it', async () => {
  const { pool } = await openPool({ workers: 1 })
  const { completion } = await runRollout(pool, 'throw-much')
  const cause = completion.failure?.cause as Error | undefined
  const { message = '', stack = '' } = cause ?? {}
  expect(message).toMatch(/^e{60000}/)
  expect(message.length + stack.length).toBeLessThan(150_000)
})

it('an error of 10 MB that ends its worker is cut as well', async () => {
  const { pool, ends } = await openPool({ workers: 1 })
  const { completion } = await runRollout(pool, 'throw-much-from-outside')
  expect(completion.failure?.message).toMatch(/ ended because nobody caught an error: e{8000}/)
  for (const { what } of ends) expect(what.length).toBeLessThan(10_000)
})

it('an error that throws when it is looked at fails its rollout', async () => {
  const { pool } = await openPool({ workers: 1 })
  const { completion } = await runRollout(pool, 'throw-unreadable')
  expect(completion.failure).toMatchObject({
    message: 'something without a message was thrown',
    category: 'agent_error',
  })
})

it.each([
  ['throw-unsendable', 'not to be sent'],
  ['throw-shared', '0,0,0,0,0,0,0,0'],
  ['throw-revoked', 'something without a message was thrown'],
])('an error that cannot be sent to the front fails its rollout: %s', async (harm, message) => {
  const { pool } = await openPool({ workers: 1 })
  const { completion, grading } = await runRollout(pool, harm)
  expect(completion.failure?.message).toBe(message)
  expect(grading?.status).toBe('failure')
  expect((await completion.partialSamples)?.size).toBe(0)
})

it('a worker that cannot learn what memory it takes, as without files, goes on', async () => {
  const { pool, ends } = await openPool({ workers: 1, stallTimeoutSeconds: 10 })
  const { completion } = await runRollout(pool, 'hide-memory')
  expect(completion.failure).toBeNull()
  expect(ends).toEqual([])
})

it('a row that is nested too deeply for a worker to read fails alone, also where it waits for one', async () => {
  const { pool, ends } = await openPool({ workers: 1 })
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
})

describe('a rollout that ends its worker', () => {
  onlyIf(process.platform === 'linux', 'a Linux system').it(
    'by allocating, and is stopped before its heap is full, is told how much memory it took',
    async () => {
      const { pool } = await openPool({ heapMegabytes: 100, stallTimeoutSeconds: 2 })
      const { completion } = await runRollout(pool, 'hoard')
      expect(completion.failure?.message).toMatch(
        /^the worker process blocked its event loop for more than 2 s, and took \d{3,} MiB of memory; /,
      )
    },
  )

  it.each([
    ['loop', /^the worker process blocked its event loop for more than 2 s; /],
    [
      'allocate',
      /^the worker process aborted \(SIGABRT\), probably because its heap of 64 MiB was full; /,
    ],
    ['buffers', /^the worker process was ended because it took more than 384 MiB of memory; /],
    ['segfault', /^the worker process crashed in native code \(SIGSEGV\); /],
    ['kill', /^the worker process was killed by SIGKILL, probably because memory ran out; /],
    ['exit-at-once', /^the worker process exited with code 3; /],
    [
      'abort',
      /^the worker process ended: process\.abort was called \(at \S*test\/harmful-worker\.ts:\d+:\d+\); /,
    ],
    [
      'close-channel',
      /^the worker process was ended because it closed the channel to its parent; /,
    ],
    ['garble-last-words', /^the worker process exited with code 4; /],
    [
      'exit-from-outside',
      /^the worker process exited with code 0: process\.exit was called \(at \S*test\/harmful-worker\.ts:\d+:\d+\); /,
    ],
  ])('by %s is not given a third one, and says what happened', async (harm, text) => {
    const { pool, ends } = await openPool({
      heapMegabytes: 64,
      // A machine that is busy takes its time to fill a heap.
      stallTimeoutSeconds: harm === 'loop' ? 2 : 100,
    })
    const { completion, grading } = await runRollout(pool, harm)
    expect(completion.failure?.message).toMatch(text)
    expect(completion.failure?.message).toMatch(
      /; it is the second worker that ended with this rollout in it$/,
    )
    expect(completion.failure).toMatchObject({
      category: 'agent_error',
      cause: { code: 'worker_lost' },
    })
    expect(grading?.failure?.message).toBe(completion.failure?.message)
    expect(ends).toHaveLength(2)
    expect((await runRollout(pool, 'nothing')).grading?.status).toBe('success')
  })

  it('after it asked the policy fails at once, and makes no second call', async () => {
    const policy = await openPolicy()
    const { pool, ends } = await openPool()
    const { completion } = await runRollout(pool, 'ask segfault', {
      chatCompletionsUrl: policy.url,
    })
    expect(completion.failure?.message).toBe(
      'the worker process crashed in native code (SIGSEGV); the rollout had asked the policy already, so it was not run again: a second run under its id would mix two trajectories',
    )
    expect(policy.requests).toHaveLength(1)
    expect(ends).toMatchObject([{ rollouts: 1 }])
  })

  it('in its grader keeps the success of the workflow and the samples', async () => {
    const { pool } = await openPool()
    const { completion, grading } = await runRollout(pool, 'nothing', { label: 'segfault' })
    expect(completion.status).toBe('success')
    expect(grading?.failure?.message).toMatch(
      /^the worker process crashed .*; the samples of the rollout were in it/,
    )
    expect([...(grading?.samples.values() ?? [])]).toMatchObject([{ reward: null, messages: [{}] }])
  })
})

describe('a worker that is killed', () => {
  it('takes no result along that is here already', async () => {
    const { pool } = await openPool({ workers: 1 })
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

  it('hands what has not asked the policy to another, within the same deadline', async () => {
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
    expect([phases, replaced(pool)]).toEqual([1, [['killed', 1]]])
  })

  it('answers no more questions, and another one does', async () => {
    const { pool } = await openPool({ workers: 1 })
    expect(await pool.ask('who?')).toMatchObject({ question: 'who?' })
    await expect(pool.ask('die')).rejects.toMatchObject({ code: 'worker_lost' })
    expect(await pool.ask('who?')).toMatchObject({ question: 'who?' })
  })
})

it('who is with a rollout that brings down two workers is run again, and right', async () => {
  const { pool, ends } = await openPool({ workers: 2 })
  const others = Array.from({ length: 40 }, async () =>
    // A grading that is lost with its worker is another matter.
    runRollout(pool, 'pause', { grade: false }),
  )
  const bad = ['segfault', 'kill', 'segfault'].map(async (harm) =>
    runRollout(pool, `pause ${harm}`),
  )
  for (const { completion } of await Promise.all(others)) expect(completion.failure).toBeNull()
  for (const { completion } of await Promise.all(bad)) {
    expect(completion.failure?.message).toMatch(/it is the second worker that ended with this/)
  }
  expect(ends.length).toBeGreaterThan(3)
})

it('a rollout that was in a worker which never began it is not suspected', async () => {
  const folder = await temporaryFolder()
  const { pool, ends } = await openPool({
    workers: 1,
    args: ['counts', path.join(folder, 'kills')],
  })
  // Gone before it was handed over; the next worker goes with it, and the third runs it to its end.
  const phaseChanged = (): void => {
    for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
  }
  const { completion } = await runRollout(pool, 'kill-once', { grade: false }, { phaseChanged })
  expect(completion.failure).toBeNull()
  expect(ends).toMatchObject([{ rollouts: 1 }, { rollouts: 1 }])
})

it('who was with a worker that ended comes to its turn, however many others come meanwhile', async () => {
  const { pool } = await openPool({ workers: 1 })
  const others: Promise<unknown>[] = []
  const stream = setInterval(() => {
    others.push(runRollout(pool, 'pause', { grade: false }))
  }, 5)
  let killed = false
  const { completion } = await runRollout(
    pool,
    'pause pause pause',
    { grade: false },
    {
      phaseChanged: () => {
        // In the midst of it.
        setTimeout(() => {
          if (!killed) for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
          killed = true
        }, 30)
      },
    },
  )
  clearInterval(stream)
  await Promise.all(others)
  expect(completion.failure).toBeNull()
  expect(replaced(pool)).toEqual([['killed', 1]])
})

it('a reward that is on its way when its rollout is cancelled comes too late', async () => {
  const { pool } = await openPool({ workers: 1 })
  const ended = runRollout(
    pool,
    'nothing',
    { rolloutId: 'late' },
    {
      workflowFinished: async () => {
        // The worker grades while this process is held up, which then cancels first.
        setImmediate(() => {
          const until = performance.now() + 300
          while (performance.now() < until);
          expect(pool.cancel({ ids: ['late'] }).get('late')).toBe('cancelled_running')
        })
      },
    },
  )
  const { grading } = await ended
  expect(grading?.failure?.message).toBe('cancelled')
  expect(pool.status('late')).toMatchObject({ status: 'cancelled', reward: null })
})

it('a success that is on its way when its rollout is cancelled comes too late, graded or not', async () => {
  const { pool } = await openPool({ workers: 1 })
  for (const grade of [true, false]) {
    const rolloutId = `late, ${grade}`
    const { completion, grading } = await runRollout(
      pool,
      'nothing',
      { rolloutId, grade },
      {
        // The worker runs it while this process is held up, which then cancels first.
        phaseChanged: (phase) => {
          if (phase === 'grading') return
          setImmediate(() => {
            const until = performance.now() + 300
            while (performance.now() < until);
            expect(pool.cancel({ ids: [rolloutId] }).get(rolloutId)).toBe('cancelled_running')
          })
        },
      },
    )
    expect(completion.failure?.message).toBe('cancelled')
    expect(grading?.failure?.message).toBe(grade ? 'cancelled' : undefined)
    expect(pool.status(rolloutId)).toMatchObject({ status: 'cancelled', reward: null })
  }
})

it('code that does not react does not hold up its deadline or its cancelling', async () => {
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
})

it.each([
  ['unloadable', { message: 'this entrypoint has a mistake', name: 'SyntaxError' }],
  [
    'exits',
    {
      code: 'invalid_entrypoint',
      message: expect.stringMatching(
        /^Before it could take rollouts, the worker process exited with code 7: process\.exit was called \(at .*harmful-worker/,
      ),
    },
  ],
  [
    'never-loads',
    {
      code: 'invalid_entrypoint',
      message:
        'Before it could take rollouts, the worker process exited with code 13: its entrypoint awaits something that can never come.',
    },
  ],
])('a pool whose module is %s does not start, and says why', async (how, error) => {
  const opening = createWorkerPool({ module: harmfulWorker, args: [how], execArgv: [], workers: 2 })
  await expect(opening).rejects.toMatchObject(error)
})
