import {
  defineWorkflowConfig,
  requireRolloutContext,
  type RolloutLimits,
  type RolloutSample,
} from '@osmosis/core'
import { LocalBackend, runToEnd } from '@osmosis/server/execution'
import { fault, startPolicyServer, type PolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { grader, request, workflow } from '../../../../test/kit/executed-rollouts.ts'

const messages = [{ role: 'user' as const, content: 'hi' }]

/** Calls the policy again and again, and takes no notice of errors. */
const endless = workflow(async (ctx) => {
  const policy = requireRolloutContext('The agent').policy('main')
  requireRolloutContext('The agent').registerSampleSource('main', {
    requiresModelCall: true,
    getSample: (id) => ({ ...emptySample, id }),
  })
  while (!ctx.signal.aborted) await policy.complete({ messages }).catch(() => {})
})

const emptySample = { messages: [] } as unknown as RolloutSample

interface Limited {
  readonly end: Awaited<ReturnType<typeof runToEnd>>
  readonly graded: readonly RolloutSample[]
}

async function limited(server: PolicyServer, rolloutLimits: RolloutLimits): Promise<Limited> {
  const graded: RolloutSample[] = []
  const backend = new LocalBackend({
    workflow: endless,
    workflowConfig: defineWorkflowConfig({ name: 'endless', rolloutLimits }),
    grader: grader((ctx) => {
      graded.push(ctx.sample)
      ctx.setReward(0.5)
    }),
  })
  return { end: await runToEnd(backend, request({ chatCompletionsUrl: server.url })), graded }
}

const usage = { promptTokens: 90, completionTokens: 10 }

it.each([
  ['modelCalls', { modelCalls: 3 }, 3],
  ['totalTokens', { totalTokens: 250 }, 3],
  ['costUsd', { costUsd: 0.9, usdPerMillionTokens: { prompt: 5000, completion: 5000 } }, 2],
] as const)(
  '%s ends a rollout, which is graded with its calls so far',
  async (name, limits, calls) => {
    await using server = await startPolicyServer(() => ({ content: 'a', usage }))
    const { end, graded } = await limited(server, limits)
    expect(end).toMatchObject({ kind: 'rewarded', removed: [] })
    expect(server.requests).toHaveLength(calls)
    expect(graded).toMatchObject([{ reward: 0.5, extraFields: { limit_reached: name } }])
    expect(graded[0]?.calls.map(({ error }) => error)).toEqual(Array(calls).fill(null))
  },
)

it('its time ends a rollout in the middle of a call', async () => {
  await using server = await startPolicyServer(['first', fault.hang('body')])
  const { end, graded } = await limited(server, { seconds: 1 })
  expect(end.kind).toBe('rewarded')
  expect(graded).toMatchObject([{ extraFields: { limit_reached: 'seconds' } }])
  expect(graded[0]?.calls).toMatchObject([
    { error: null },
    { error: 'The rollout reached its limit of 1 seconds.' },
  ])
})

it('removes the samples without asking the grader, where the config says so', async () => {
  await using server = await startPolicyServer(() => 'again')
  const { end, graded } = await limited(server, { modelCalls: 2, whenReached: 'remove' })
  expect(end).toEqual({ kind: 'removed' })
  expect(graded).toEqual([])
})

it('fails without any answer, and says which limit it was', async () => {
  await using server = await startPolicyServer(() => fault.hang('headers'))
  const { end } = await limited(server, { seconds: 0.3 })
  expect(end).toMatchObject({
    kind: 'failed',
    category: 'agent_error',
    message: 'The rollout reached its limit of 0.3 seconds.',
  })
})

it('fails when the policy does not report what a limit is about', async () => {
  await using server = await startPolicyServer(() => ({ content: 'a', usage }))
  const { end } = await limited(server, { costUsd: 1 })
  expect(end).toMatchObject({
    kind: 'failed',
    message: expect.stringContaining(
      'rolloutLimits.costUsd cannot be checked: the policy reports no cost; set usdPerMillionTokens.',
    ),
  })
})

it.each([
  [{ modelCalls: 0 }, 'rolloutLimits.modelCalls of "endless" must be a number above 0, got 0.'],
  [
    { whenReached: 'stop' },
    'rolloutLimits.whenReached of "endless" must be grade or remove, got "stop".',
  ],
  [{ usdPerMillionTokens: 3 }, 'must have the numbers prompt and completion, got 3.'],
  [
    { usdPerMillionTokens: { prompt: Number.NaN, completion: 1 } },
    'must have the numbers prompt and completion, got {"prompt":null,"completion":1}.',
  ],
  [{ turns: 3 }, 'rolloutLimits.turns of "endless" is unknown: it takes modelCalls, totalTokens,'],
])('refuses %j', (rolloutLimits, message) => {
  const config = { name: 'endless', rolloutLimits: rolloutLimits as RolloutLimits }
  expect(() => defineWorkflowConfig(config)).toThrow(message)
})
