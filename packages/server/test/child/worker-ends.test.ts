import { existsSync } from 'node:fs'

import { onlyIf } from '../../../../test/kit/index.ts'
import { describe, expect, it } from 'vitest'

import { endTwoWorkers, openPolicy, openPool, runRollout, sharedPool } from './pool-under-test.ts'

const shared = sharedPool()

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
  expect(grading?.status).toBe('failure')
  expect((await completion.partialSamples)?.size).toBe(0)
})

it('a row that is nested too deeply for a worker fails alone, also while it waits for one', async () => {
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
})

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
  expect(ends).toMatchObject([{ what, rollouts: 1 }])
  await expect.poll(() => pool.workers().restarts).toMatchObject({ stuck: 1 })
})

onlyIf(existsSync('/proc/vmstat'), 'a Linux system').it(
  'a worker that was killed from outside is not reported as out of memory',
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
  const env = { ...process.env, OSMOSIS_ROLLOUT_SERVER_API_KEY: 'server-key', OF_THE_USER: 'yes' }
  const { pool } = await openPool({ env })
  const variables = await pool.ask('variables')
  expect(variables).toContain('OF_THE_USER')
  expect(variables).not.toContain('OSMOSIS_ROLLOUT_SERVER_API_KEY')
})

it('another worker answers questions after one was killed', async () => {
  const { pool } = await shared()
  expect(await pool.ask('who?')).toMatchObject({ question: 'who?' })
  await expect(pool.ask('die')).rejects.toMatchObject({ code: 'worker_lost' })
  expect(await pool.ask('who?')).toMatchObject({ question: 'who?' })
})

it('refuses a reward that arrives after its rollout was cancelled', async () => {
  const { pool } = await shared()
  const ended = runRollout(
    pool,
    'nothing',
    { rolloutId: 'late' },
    {
      workflowFinished: async () => {
        // The worker grades while this process is blocked, which then cancels first.
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

it('refuses a success that arrives after its rollout was cancelled, with and without grading', async () => {
  const { pool } = await shared()
  for (const grade of [true, false]) {
    const rolloutId = `late, ${grade}`
    const { completion, grading } = await runRollout(
      pool,
      'nothing',
      { rolloutId, grade },
      {
        // The worker runs it while this process is blocked, which then cancels first.
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

it('a pool whose module exits its process fails to start with the reason', async () => {
  await expect(openPool({ args: ['exits'] })).rejects.toMatchObject({
    code: 'invalid_entrypoint',
    message: expect.stringMatching(
      /^Before it was ready, the worker process exited with code 7: process\.exit was called \(at .*harmful-worker/,
    ),
  })
})
