import { type Reply, startPolicyServer } from '@osmosis/testing'

import type { BackendCase, BackendRule } from './backend-rules.ts'
import { expectEqual, expectRequests, eventually } from './expectations.ts'
import { executeScripted, type ReadOutcomes, withoutPlace } from './scripted-rollout.ts'

/** Slots, queues and the states of rollouts. */
export const concurrencyCases = {
  'holds-slots': async (open) => {
    const backend = await open('narrow')
    const answers = [0, 1].map(() => Promise.withResolvers<Reply>())
    await using server = await startPolicyServer(async (_request, n) => answers[n]?.promise ?? 'no')
    const execute = async (rolloutId: string): Promise<ReadOutcomes> =>
      executeScripted(backend, {
        workflow: 'calls',
        grade: false,
        rolloutId,
        chatCompletionsUrl: server.url,
      })
    expectEqual('hasCapacity()', backend.hasCapacity(), true)
    const first = execute('one')
    expectEqual('hasCapacity()', backend.hasCapacity(), true)
    const second = execute('two')
    expectEqual('hasCapacity()', backend.hasCapacity(), false)
    await eventually('a model call of "one"', server.waitForRequest(0), first)
    expectEqual('load()', backend.load(), { maxConcurrent: 1, queued: 1, running: 1 })
    expectEqual('the state of "one"', backend.status('one').status, 'running')
    expectEqual('the state of "two"', backend.status('two').status, 'queued')
    answers[0]?.resolve('yes')
    await first
    await eventually('a model call of "two"', server.waitForRequest(1), second)
    expectEqual('hasCapacity()', backend.hasCapacity(), true)
    const ids = server.requests.map(({ headers }) => headers['x-rollout-id'])
    expectEqual('x-rollout-id of each request', ids, ['one', 'two'])
    answers[1]?.resolve('yes')
    await second
    expectEqual('load()', backend.load(), { maxConcurrent: 1, queued: 0, running: 0 })

    const acknowledged = Promise.withResolvers<void>()
    const finished = Promise.withResolvers<void>()
    const waiting = executeScripted(backend, {}, {}, async ({ type }) => {
      if (type !== 'workflow') return
      finished.resolve()
      await acknowledged.promise
    })
    await finished.promise
    expectEqual('load()', backend.load(), { maxConcurrent: 1, queued: 0, running: 0 })
    const meanwhile = await executeScripted(backend)
    expectEqual('the status of a grading meanwhile', meanwhile.grading?.status, 'success')
    acknowledged.resolve()
    expectEqual('the status of the grading', (await waiting).grading?.status, 'success')
  },

  'holds-grader-slots': async (open) => {
    const backend = await open('narrow')
    let answer = Promise.withResolvers<Reply>()
    await using server = await startPolicyServer(async () => answer.promise)
    const ended = ['g1', 'g2'].map(async (rolloutId) =>
      executeScripted(backend, {
        rolloutId,
        grader: 'waits-for-test',
        metadata: { gate: server.url },
      }),
    )
    await eventually('the request of a grader', server.waitForRequest(0), Promise.race(ended))
    // A third rollout passes through the same workflow slot, so the second waits for its grader by now.
    await executeScripted(backend, { workflow: 'no-sample' })
    expectRequests(server, 1)
    const firstAnswer = answer
    answer = Promise.withResolvers<Reply>()
    firstAnswer.resolve('continue')
    await eventually(
      'the request of the second grader',
      server.waitForRequest(1),
      Promise.all(ended),
    )
    answer.resolve('continue')
    for (const { grading } of await Promise.all(ended))
      expectEqual('the status of the grading', grading?.status, 'success')
  },

  'knows-states': async (open) => {
    const backend = await open('unlimited')
    const unknown = { status: 'unknown', reward: null, errorMessage: null }
    expectEqual('the status of "never-seen"', backend.status('never-seen'), unknown)
    await executeScripted(backend, { rolloutId: 'rewarded' })
    expectEqual('the status of "rewarded"', backend.status('rewarded'), {
      status: 'success',
      reward: 1,
      errorMessage: null,
    })
    await executeScripted(backend, { rolloutId: 'failed', workflow: 'throws' })
    const { errorMessage, ...failed } = backend.status('failed')
    expectEqual('the status of "failed"', failed, { status: 'failure', reward: null })
    expectEqual('the error of "failed"', withoutPlace(errorMessage), 'thrown by run(): boom')
    await executeScripted(backend, { rolloutId: 'several', workflow: 'two-samples' })
    expectEqual('the status of "several"', backend.status('several'), {
      status: 'success',
      reward: null,
      errorMessage: null,
    })
  },

  'repeats-ids': async (open) => {
    const backend = await open('unlimited')
    await executeScripted(backend, { rolloutId: 'same', workflow: 'throws' })
    expectEqual('the state of "same"', backend.status('same').status, 'failure')
    const first = await executeScripted(
      backend,
      { rolloutId: 'same', grader: 'removes-first', workflow: 'two-samples' },
      {},
      async ({ type }) => {
        if (type !== 'workflow') return
        const again = await executeScripted(backend, { rolloutId: 'same' })
        const ids = [...(again.grading?.samples.keys() ?? [])]
        expectEqual('the graded samples of the second rollout', ids, ['main'])
        expectEqual('the reward of "same"', backend.status('same').reward, 1)
      },
    )
    const { status, samples } = first.grading ?? {}
    expectEqual('the graded samples of the first rollout', [...(samples?.keys() ?? [])], ['a', 'b'])
    expectEqual('the status of its grading', status, 'success')
    expectEqual('the state of "same"', backend.status('same').status, 'success')
  },
} satisfies Partial<Record<BackendRule, BackendCase>>
