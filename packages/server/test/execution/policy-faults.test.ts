import {
  definePolicyFaults,
  defineWorkflowConfig,
  type PolicyCallOptions,
  requireRolloutContext,
  toRolloutSample,
} from '@osmosis/core'
import { recordOf } from '@osmosis/core/workflow'
import { LocalBackend } from '@osmosis/server/execution'
import { fault, startPolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { grader, run, workflow } from '../../../../test/kit/executed-rollouts.ts'

class ReachedTurns extends Error {}

/** An error of a framework about an answer. */
class BadOutput extends Error {
  readonly answer: string

  constructor(answer: string, options?: ErrorOptions) {
    super('There is no sum in the answer.', options)
    this.answer = answer
  }
}

definePolicyFaults((error, rollout) => {
  if (error instanceof ReachedTurns) return { limit: 'max_turns' }
  if (!(error instanceof BadOutput)) return undefined
  const isSaid = recordOf(rollout).answers.some(({ content }) => content === error.answer)
  return isSaid ? { error: 'output' } : undefined
})
definePolicyFaults(() => {
  throw new Error('A rule that throws says nothing.')
})

/** Calls the policy once, then throws. */
async function outcome(
  thrown: unknown,
  {
    config = {},
    replies = ['said'],
    call = {},
  }: { config?: object; replies?: readonly unknown[]; call?: PolicyCallOptions } = {},
) {
  await using server = await startPolicyServer(replies as never)
  const failing = workflow(async () => {
    const policy = requireRolloutContext('The agent').registerPolicySample('main')
    for (const _ of replies) {
      await policy.complete({ messages: [{ role: 'user', content: 'hi' }] }, call).catch(() => {})
    }
    throw thrown
  })
  const backend = new LocalBackend({
    workflow: failing,
    workflowConfig: defineWorkflowConfig({ name: 'faults', ...config }),
    grader: grader((ctx) => ctx.setReward(0.5)),
  })
  const { completion, grading } = await run(backend, { chatCompletionsUrl: server.url })
  const sample = grading?.samples.get('main')
  return {
    failure: completion?.failure?.message,
    reward: sample?.reward,
    fields: sample?.extraFields,
  }
}

it.each([
  ['itself', new ReachedTurns('too many'), { limit_reached: 'max_turns' }],
  ['a subclass', new (class extends BadOutput {})('said'), { model_error: 'output' }],
  ['a cause', new Error('wrapped', { cause: new BadOutput('said') }), { model_error: 'output' }],
])('an error about an answer of the policy is graded: %s', async (_what, thrown, fields) => {
  expect(await outcome(thrown)).toEqual({ failure: undefined, reward: 0.5, fields })
})

it.each([
  ['about what another model said', new BadOutput('said by a judge')],
  ['with the name of a known class', Object.assign(new Error('x'), { name: 'BadOutput' })],
  [
    'of a class with a known name',
    Object.assign(new (class extends Error {})('x'), { name: 'ReachedTurns' }),
  ],
  ['as a cause', new Error('wrapped', { cause: new BadOutput('said by a judge') })],
  [
    'with getters that throw',
    Object.defineProperty(new Error('x'), 'cause', {
      get() {
        throw new Error('no cause')
      },
    }),
  ],
])('an error without a link to the policy is a failure: %s', async (_what, thrown) => {
  expect(await outcome(thrown)).toMatchObject({ failure: expect.any(String), reward: undefined })
})

it('an answer that is no training data is not the policy that is trained', async () => {
  const said = await outcome(new BadOutput('said'), {
    call: { trainable: false, purpose: 'judge' },
  })
  expect(said).toMatchObject({ failure: expect.any(String), reward: undefined })
})

it('an error of code is a failure', async () => {
  for (const thrown of [new Error('broken'), new TypeError('x is undefined'), 'text', null]) {
    expect(await outcome(thrown)).toMatchObject({ failure: expect.any(String), reward: undefined })
  }
})

it('a framework that reports a failed model call as a bad answer is not believed', async () => {
  const replies = ['said', fault.status(400)]
  const { failure, reward } = await outcome(new BadOutput('said'), { replies })
  expect(failure).toContain('no sum in the answer')
  expect(reward).toBeUndefined()
})

it('policyFaults: fail makes them failures', async () => {
  const config = { policyFaults: 'fail' }
  const { failure, reward } = await outcome(new ReachedTurns('too many'), { config })
  expect(failure).toContain('too many')
  expect(reward).toBeUndefined()
  expect(() => defineWorkflowConfig({ name: 'x', policyFaults: 'no' as never })).toThrow(
    'policyFaults of "x" must be grade or fail, got "no".',
  )
})

it('a sample source that throws when it is asked what failed does not hide what run() threw', async () => {
  await using server = await startPolicyServer([])
  const failing = workflow(async () => {
    requireRolloutContext('The agent').registerSampleSource('main', {
      getSample: (id) => toRolloutSample({ id, messages: [] }),
      unnoticedError() {
        throw new Error('the source is broken')
      },
    })
    throw new Error('the agent is broken')
  })
  const backend = new LocalBackend({
    workflow: failing,
    workflowConfig: defineWorkflowConfig({ name: 'faults' }),
    grader: grader((ctx) => ctx.setReward(0.5)),
  })
  const { completion } = await run(backend, { chatCompletionsUrl: server.url })
  expect(completion?.failure?.message).toMatch(/^thrown by run\(\) .*: the agent is broken$/)
})
