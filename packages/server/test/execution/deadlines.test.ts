import { setTimeout } from 'node:timers/promises'

import { getRolloutContext, type RolloutContext } from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import { grader, registerSamples, run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

const never = new Promise<void>(() => {})
const oneSample = workflow(() => registerSamples('main'))
const rewardAll = grader((ctx) => ctx.setReward(1))

function block(milliseconds: number): void {
  const until = performance.now() + milliseconds
  while (performance.now() < until);
}

describe('the deadline of a workflow', () => {
  it.each([
    [
      'swallows the abort and returns',
      workflow(async (ctx) => {
        await new Promise((resolve) => {
          ctx.signal.addEventListener('abort', resolve)
        })
      }),
    ],
    [
      'throws its own error on abort',
      workflow(async (ctx) => {
        await new Promise((resolve) => {
          ctx.signal.addEventListener('abort', resolve)
        })
        throw new Error('interrupted')
      }),
    ],
    ['blocks the thread past it and then returns', workflow(() => block(40))],
  ])('fails the workflow when the code %s', async (_what, late) => {
    const { completion } = await run(new LocalBackend({ workflow: late }), {
      agentTimeoutSeconds: 0.02,
    })
    expect(completion?.failure).toMatchObject({
      message: 'workflow exceeded its 0.02s deadline',
      category: 'timeout',
    })
  })

  it.each([0, -5])(
    'expires before the workflow starts when %i seconds are left',
    async (agentTimeoutSeconds) => {
      const { completion } = await run(
        new LocalBackend({ workflow: workflow(() => expect.fail()) }),
        { agentTimeoutSeconds },
      )
      expect(completion?.failure?.message).toBe(
        `workflow exceeded its ${agentTimeoutSeconds}s deadline`,
      )
    },
  )

  it('includes the time that was spent in a queue elsewhere', async () => {
    const backend = new LocalBackend({ workflow: workflow(() => never) })
    const { completion } = await run(backend, { agentTimeoutSeconds: 7.02, queuedSeconds: 7 })
    expect(completion?.failure?.message).toBe(
      'workflow exceeded its 7.02s deadline (7.0s of it spent queued)',
    )
  })

  it('does not expire early when it is later than a timer can be set', async () => {
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        await setTimeout(20)
        registerSamples('main')
      }),
      grader: grader(async (ctx) => {
        await setTimeout(20)
        ctx.setReward(1)
      }),
    })
    const { completion, grading } = await run(backend, {
      agentTimeoutSeconds: 1e8,
      graderTimeoutSeconds: 1e8,
    })
    expect(completion?.failure).toBeNull()
    expect(grading?.failure).toBeNull()
  })

  it('ends a model call, closes its socket and refuses later ones', async () => {
    const policy = await startPolicyEndpoint((response, n) => {
      if (n === 1) sendStream(response, answerStream('in time'))
    })
    let context: RolloutContext | undefined
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        context = getRolloutContext()
        await context?.policy('main').complete({ messages: [] })
        await context?.policy('main').complete({ messages: [] })
      }),
    })
    const { completion } = await run(backend, {
      chatCompletionsUrl: policy.url,
      // Long enough for the first call on a busy machine.
      agentTimeoutSeconds: 2,
    })
    expect(completion?.failure?.category).toBe('timeout')
    expect(await policy.requests[1]?.closed).toBe(true)
    await expect(context?.policy('main').complete({ messages: [] })).rejects.toThrow(/deadline/)
    expect(policy.requests).toHaveLength(2)
  })
})

describe('the deadline of a grader', () => {
  it('ignores a reward that is set later', async () => {
    const late = Promise.withResolvers<undefined>()
    const backend = new LocalBackend({
      workflow: oneSample,
      grader: grader(async (ctx) => {
        await new Promise((resolve) => {
          ctx.signal.addEventListener('abort', resolve)
        })
        ctx.setReward(1)
        late.resolve(undefined)
      }),
    })
    const { grading } = await run(backend, { graderTimeoutSeconds: 0.02 })
    await late.promise
    expect(grading?.samples.get('main')?.reward).toBeNull()
  })

  it('starts when the grader starts', async () => {
    const backend = new LocalBackend({ workflow: oneSample, grader: rewardAll })
    const { grading } = await run(backend, { graderTimeoutSeconds: 5, agentTimeoutSeconds: 5 })
    expect(grading?.status).toBe('success')
  })
})

it('refuses model calls after the workflow has ended, because the answer could not be recorded', async () => {
  const policy = await startPolicyEndpoint(() => {})
  let stray: Promise<unknown> | undefined
  const backend = new LocalBackend({
    workflow: workflow(() => {
      registerSamples('main')
      stray = getRolloutContext()?.policy('main').complete({ messages: [] })
      stray?.catch(() => {})
    }),
    grader: rewardAll,
  })
  await run(backend, { chatCompletionsUrl: policy.url })
  await expect(stray).rejects.toMatchObject({ code: 'rollout_ended' })
})
