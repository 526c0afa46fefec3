import assert from 'node:assert/strict'

import type { Reply } from '../policy-reply.ts'
import { startPolicyServer } from '../policy-server.ts'
import { executeScripted, type BackendCase, type ObservedOutcomes } from './backend-case.ts'
import type { BackendRule } from './backend-rules.ts'

/** How many rollouts are where. */
export const loadCases = {
  'holds-slots': async (open) => {
    const backend = await open('narrow')
    const answers = [0, 1].map(() => Promise.withResolvers<Reply>())
    await using server = await startPolicyServer(async (_request, n) => answers[n]?.promise ?? 'no')
    const execute = async (rolloutId: string): Promise<ObservedOutcomes> =>
      executeScripted(backend, {
        does: 'asks',
        grade: false,
        rolloutId,
        chatCompletionsUrl: server.url,
      })
    assert.equal(backend.hasCapacity(), true)
    const first = execute('one')
    assert.equal(backend.hasCapacity(), true)
    const second = execute('two')
    assert.equal(backend.hasCapacity(), false)
    await server.waitForRequest(0)
    assert.deepEqual(backend.load(), { maxConcurrent: 1, queued: 1, running: 1 })
    assert.deepEqual(
      ['one', 'two'].map((id) => backend.status(id).status),
      ['running', 'queued'],
    )
    answers[0]?.resolve('yes')
    await first
    await server.waitForRequest(1)
    assert.equal(backend.hasCapacity(), true)
    assert.deepEqual(
      server.requests.map(({ headers }) => headers['x-rollout-id']),
      ['one', 'two'],
    )
    answers[1]?.resolve('yes')
    await second
    assert.deepEqual(backend.load(), { maxConcurrent: 1, queued: 0, running: 0 })

    const noted = Promise.withResolvers<void>()
    const finished = Promise.withResolvers<void>()
    const waiting = executeScripted(
      backend,
      {},
      {
        workflowFinished: async () => {
          finished.resolve()
          await noted.promise
        },
      },
    )
    await finished.promise
    assert.deepEqual(backend.load(), { maxConcurrent: 1, queued: 0, running: 0 })
    assert.equal((await executeScripted(backend)).grading?.status, 'success')
    noted.resolve()
    assert.equal((await waiting).grading?.status, 'success')
  },

  'holds-grader-slots': async (open) => {
    const backend = await open('narrow')
    let answer = Promise.withResolvers<Reply>()
    await using server = await startPolicyServer(async () => answer.promise)
    const ended = ['g1', 'g2'].map(async (rolloutId) =>
      executeScripted(backend, {
        rolloutId,
        grades: 'waits-for-test',
        metadata: { gate: server.url },
      }),
    )
    await server.waitForRequest(0)
    // A third one passes through the same workflow slot, so the second is at its grader by now.
    await executeScripted(backend, { does: 'no-sample' })
    assert.equal(server.requests.length, 1)
    const open1 = answer
    answer = Promise.withResolvers<Reply>()
    open1.resolve('continue')
    await server.waitForRequest(1)
    answer.resolve('continue')
    for (const { grading } of await Promise.all(ended)) assert.equal(grading?.status, 'success')
  },

  'knows-states': async (open) => {
    const backend = await open('unlimited')
    const unknown = { status: 'unknown', reward: null, errorMessage: null }
    assert.deepEqual(backend.status('never-seen'), unknown)
    await executeScripted(backend, { rolloutId: 'rewarded' })
    assert.deepEqual(backend.status('rewarded'), {
      status: 'success',
      reward: 1,
      errorMessage: null,
    })
    await executeScripted(backend, { rolloutId: 'failed', does: 'throws' })
    assert.deepEqual(backend.status('failed'), {
      status: 'failure',
      reward: null,
      errorMessage: 'thrown by run(): boom',
    })
    await executeScripted(backend, { rolloutId: 'several', does: 'two-samples' })
    assert.deepEqual(backend.status('several'), {
      status: 'success',
      reward: null,
      errorMessage: null,
    })
  },

  'repeats-ids': async (open) => {
    const backend = await open('unlimited')
    await executeScripted(backend, { rolloutId: 'same', does: 'throws' })
    assert.equal(backend.status('same').status, 'failure')
    const first = await executeScripted(
      backend,
      { rolloutId: 'same', grades: 'removes-first', does: 'two-samples' },
      {
        workflowFinished: async () => {
          const again = await executeScripted(backend, { rolloutId: 'same' })
          assert.deepEqual([...(again.grading?.samples.keys() ?? [])], ['main'])
          assert.equal(backend.status('same').reward, 1)
        },
      },
    )
    assert.deepEqual([...(first.grading?.samples.keys() ?? [])], ['a', 'b'])
    assert.equal(first.grading?.status, 'success')
    assert.equal(backend.status('same').status, 'success')
  },
} satisfies Partial<Record<BackendRule, BackendCase>>
