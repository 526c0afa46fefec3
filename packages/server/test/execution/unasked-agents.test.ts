import { requireRolloutContext, toRolloutSample } from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import { grader, registerSamples, run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

const rewardAll = grader((ctx) => {
  for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
})

/** Registers a source that represents an agent, as adapters do, and returns the agent. */
function agent(name: string): (signal?: AbortSignal) => Promise<unknown> {
  const rollout = requireRolloutContext('test')
  rollout.registerSampleSource(name, {
    requiresModelCall: true,
    getSample: (id) => toRolloutSample({ id, messages: [] }),
  })
  return async (signal) => {
    const messages = [{ role: 'user', content: 'hi' }]
    return rollout.policy(name).complete({ messages }, { retries: 0, signal })
  }
}

describe('an agent that never called the policy', () => {
  it('gives no sample, while the others are graded', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('4')))
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        agent('critic')
        await agent('solver')()
        registerSamples('own')
      }),
      grader: rewardAll,
    })
    const { completion, grading } = await run(backend, { chatCompletionsUrl: policy.url })
    expect(completion?.warnings).toEqual([])
    expect([...(grading?.samples ?? [])].map(([id, { reward }]) => [id, reward])).toEqual([
      ['solver', 1],
      ['own', 1],
    ])
  })

  it('fails a rollout without other samples, and is named', async () => {
    const backend = new LocalBackend({
      workflow: workflow(() => {
        agent('solver')
        agent('critic')
      }),
    })
    const { completion, grading } = await run(backend)
    const message =
      'There is no sample to grade: these agents were registered, but had no answer from the policy when run() ended: "solver", "critic". Probably an `await` is missing, a stream was not read to its end, or the agents were never run or have a model of their own.'
    expect(completion).toEqual({ status: 'success', failure: null, warnings: [message] })
    expect(grading).toMatchObject({
      status: 'failure',
      failure: { message, category: 'validation_error', cause: { code: 'no_samples' } },
    })
  })
})

it('an agent whose call is still in progress at the end of the workflow gives no sample', async () => {
  const policy = await startPolicyEndpoint(() => {})
  let left: Promise<unknown> = Promise.resolve()
  const backend = new LocalBackend({
    workflow: workflow(() => {
      left = agent('solver')().catch((error: unknown) => error)
    }),
    grader: rewardAll,
  })
  const { grading } = await run(backend, { chatCompletionsUrl: policy.url })
  expect(await left).toMatchObject({ code: 'rollout_ended' })
  expect(grading?.failure).toMatchObject({
    message: expect.stringMatching(/"solver".*`await`/),
    cause: { code: 'no_samples' },
  })
})

describe('an agent whose only answer was aborted', () => {
  it('is no sample, so the loser of a race is neither paid nor punished', async () => {
    const slow = Promise.withResolvers<undefined>()
    const policy = await startPolicyEndpoint((response, _n, { headers }) => {
      if (headers['x-sample-id'] === 'loser') slow.resolve(undefined)
      else sendStream(response, answerStream('4'))
    })
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        const stop = new AbortController()
        const loser = agent('loser')(stop.signal)
        await slow.promise
        await agent('winner')()
        stop.abort()
        await expect(loser).rejects.toThrow('aborted')
      }),
      grader: rewardAll,
    })
    const { completion, grading } = await run(backend, { chatCompletionsUrl: policy.url })
    expect(completion?.warnings).toEqual([])
    expect([...(grading?.samples.keys() ?? [])]).toEqual(['winner'])
    expect(completion?.otherCalls).toMatchObject([{ error: expect.stringContaining('aborted') }])
  })

  it.each([
    {
      when: 'and the workflow waits for its end',
      end: async (call: Promise<unknown>) => call.catch(() => {}),
      recorded: 2,
    },
    {
      when: 'and the workflow ends before it',
      end: async (call: Promise<unknown>) => void call.catch(() => {}),
      recorded: 1,
    },
  ])('has its answers so far when a later one is aborted, $when', async ({ end, recorded }) => {
    const slow = Promise.withResolvers<undefined>()
    let calls = 0
    const policy = await startPolicyEndpoint((response) => {
      calls += 1
      if (calls === 1) sendStream(response, answerStream('4'))
      else slow.resolve(undefined)
    })
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        const stop = new AbortController()
        const solver = agent('solver')
        await solver()
        const second = solver(stop.signal)
        await slow.promise
        stop.abort()
        await end(second)
      }),
      grader: rewardAll,
    })
    const { completion, grading } = await run(backend, { chatCompletionsUrl: policy.url })
    expect(completion).toMatchObject({ status: 'success', failure: null })
    expect([...(grading?.samples.keys() ?? [])]).toEqual(['solver'])
    const solver = grading?.samples.get('solver')
    expect(solver?.reward).toBe(1)
    expect(solver?.calls.length).toBeGreaterThanOrEqual(recorded)
  })
})

it('an agent whose only call failed fails the rollout, although the workflow caught the error', async () => {
  const policy = await startPolicyEndpoint((response) => response.writeHead(400).end())
  const backend = new LocalBackend({
    workflow: workflow(async () => {
      await agent('solver')().catch(() => {})
    }),
    grader: rewardAll,
  })
  const { completion, grading } = await run(backend, { chatCompletionsUrl: policy.url })
  expect(completion?.failure).toMatchObject({ category: 'http_error', cause: { status: 400 } })
  expect(grading).toBeUndefined()
})

describe('an agent that the policy is still answering', () => {
  it('is named in a warning when run() has ended, and the other samples are graded', async () => {
    const { promise: asked, resolve } = Promise.withResolvers<undefined>()
    let calls = 0
    const policy = await startPolicyEndpoint((response) => {
      calls += 1
      if (calls === 1) sendStream(response, answerStream('4'))
      else resolve(undefined)
    })
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        await agent('solver')()
        const title = agent('title')()
        title.catch(() => undefined)
        await asked
      }),
      grader: rewardAll,
    })
    const { completion, grading } = await run(backend, { chatCompletionsUrl: policy.url })
    expect(completion).toMatchObject({
      status: 'success',
      warnings: [expect.stringMatching(/still answering "title" when run\(\) ended/)],
    })
    expect([...(grading?.samples.keys() ?? [])]).toEqual(['solver'])
  })

  it('fails the rollout if it has an earlier answer, because it would be graded in the middle', async () => {
    const { promise: asked, resolve } = Promise.withResolvers<undefined>()
    let calls = 0
    const policy = await startPolicyEndpoint((response) => {
      calls += 1
      if (calls === 1) sendStream(response, answerStream('4'))
      else resolve(undefined)
    })
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        const solver = agent('solver')
        await solver()
        solver().catch(() => undefined)
        await asked
      }),
      grader: rewardAll,
    })
    const { completion } = await run(backend, { chatCompletionsUrl: policy.url })
    expect(completion?.failure).toMatchObject({
      message: expect.stringContaining('await everything the workflow starts'),
      cause: { code: 'rollout_ended' },
    })
  })
})
