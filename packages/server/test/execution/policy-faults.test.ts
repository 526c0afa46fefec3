import { definePolicyFaults, defineWorkflowConfig, requireRolloutContext } from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { fault, startPolicyServer } from '@osmosis/testing'
import { grader, run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { expect, it } from 'vitest'

class TurnsExceeded extends Error {}
class BadOutput extends Error {}

definePolicyFaults({
  TurnsExceeded: { limit: 'max_turns' },
  BadOutput: { error: 'output' },
  REFUSED: { error: 'refusal' },
})

/** Calls the policy once, then throws. */
async function outcome(
  thrown: unknown,
  { config = {}, replies = ['said'] }: { config?: object; replies?: never[] | unknown[] } = {},
) {
  await using server = await startPolicyServer(replies as never)
  const failing = workflow(async () => {
    const policy = requireRolloutContext('The agent').registerPolicySample('main')
    for (const _ of replies) {
      await policy.complete({ messages: [{ role: 'user', content: 'hi' }] }).catch(() => {})
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
  ['a class', new TurnsExceeded('too many'), { limit_reached: 'max_turns' }],
  ['a subclass', new (class extends BadOutput {})('no sum'), { model_error: 'output' }],
  ['a name', Object.assign(new Error('x'), { name: 'BadOutput' }), { model_error: 'output' }],
  ['a code', Object.assign(new Error('x'), { code: 'REFUSED' }), { model_error: 'refusal' }],
  ['an id', Object.assign(new Error('x'), { id: 'REFUSED' }), { model_error: 'refusal' }],
  ['a cause', new Error('wrapped', { cause: new BadOutput('x') }), { model_error: 'output' }],
])('an error of a framework is graded when it is known by %s', async (_what, thrown, fields) => {
  expect(await outcome(thrown)).toEqual({ failure: undefined, reward: 0.5, fields })
})

it('an error of code is a failure', async () => {
  for (const thrown of [new Error('broken'), new TypeError('x is undefined'), 'text', null]) {
    expect(await outcome(thrown)).toMatchObject({ failure: expect.any(String), reward: undefined })
  }
})

it('a framework that reports a failed model call as a bad answer is not believed', async () => {
  const replies = ['said', fault.status(400)]
  const { failure, reward } = await outcome(new BadOutput('no sum'), { replies })
  expect(failure).toContain('no sum')
  expect(reward).toBeUndefined()
})

it('policyFaults: fail makes them failures', async () => {
  const config = { policyFaults: 'fail' }
  const { failure, reward } = await outcome(new TurnsExceeded('too many'), { config })
  expect(failure).toContain('too many')
  expect(reward).toBeUndefined()
  expect(() => defineWorkflowConfig({ name: 'x', policyFaults: 'no' as never })).toThrow(
    'policyFaults of "x" must be grade or fail, got "no".',
  )
})
