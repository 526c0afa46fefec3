import { OsmosisError, requireRolloutContext, type GraderContext } from '@osmosis/core'
import type { ExecutionBackend, RolloutEvent, RolloutRequest } from '@osmosis/protocol'
import { LocalBackend, oneReward, runToEnd, type ExecutionOutcome } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import {
  grader,
  registerSamples,
  request,
  workflow,
} from '../../../../test/kit/executed-rollouts.ts'
import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

type Rewarded = Extract<ExecutionOutcome, { kind: 'rewarded' }>

async function policyUrl(): Promise<string> {
  const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('4')))
  return policy.url
}

async function ask(...names: string[]): Promise<void> {
  registerSamples(...names)
  for (const name of names) {
    const messages = [{ role: 'user', content: 'hi' }]
    await requireRolloutContext('test').policy(name).complete({ messages })
  }
}

/** Calls the policy under each name, and grades with `body`. */
function asking(names: readonly string[], body: (ctx: GraderContext) => unknown): LocalBackend {
  return new LocalBackend({ workflow: workflow(async () => ask(...names)), grader: grader(body) })
}

const rewardAll = (ctx: GraderContext): void => {
  let reward = 0
  for (const id of ctx.samples.keys()) ctx.setSampleReward(id, (reward += 0.5))
}

async function endOf(
  backend: ExecutionBackend,
  overrides: Partial<RolloutRequest> = {},
  onEvent?: (event: RolloutEvent) => void,
): Promise<ExecutionOutcome> {
  return runToEnd(backend, request(overrides), { ...(onEvent && { onEvent }) })
}

async function rewarded(names: readonly string[]): Promise<Rewarded> {
  return asRewarded(
    await endOf(asking(names, rewardAll), { chatCompletionsUrl: await policyUrl() }),
  )
}

function asRewarded(end: ExecutionOutcome): Rewarded {
  if (end.kind === 'rewarded') return end
  throw new Error(`expected rewards, got ${JSON.stringify(end)}`)
}

describe('the outcome of a rollout', () => {
  it('has a reward for each sample that stays in training', async () => {
    const backend = asking(['a', 'b', 'c'], (ctx) => {
      rewardAll(ctx)
      ctx.removeSample('b')
    })
    const url = await policyUrl()
    const { samples } = asRewarded(await endOf(backend, { chatCompletionsUrl: url, grade: false }))
    expect([...samples].map(([id, { reward }]) => [id, reward])).toEqual([
      ['a', 0.5],
      ['c', 1.5],
    ])
  })

  it('is removed when the grader removed every sample', async () => {
    const backend = asking(['a'], (ctx) => {
      rewardAll(ctx)
      ctx.removeSample('a')
    })
    expect(await endOf(backend, { chatCompletionsUrl: await policyUrl() })).toEqual({
      kind: 'removed',
    })
  })

  it('is a failure with its reason when the workflow fails after its calls', async () => {
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        await ask('a')
        throw new Error('boom')
      }),
      grader: grader(rewardAll),
    })
    expect(await endOf(backend, { chatCompletionsUrl: await policyUrl() })).toEqual({
      kind: 'failed',
      category: 'agent_error',
      message: expect.stringMatching(/^thrown by run\(\) at \S+:\d+: boom$/),
    })
  })

  it('is a failure when the grader throws after it set its rewards', async () => {
    const backend = asking(['a'], (ctx) => {
      rewardAll(ctx)
      throw new TypeError('gboom')
    })
    expect(await endOf(backend, { chatCompletionsUrl: await policyUrl() })).toEqual({
      kind: 'failed',
      category: 'validation_error',
      message: expect.stringMatching(/^thrown by grade\(\) at \S+:\d+: gboom$/),
    })
  })

  it('is a failure at the deadline of the workflow or of the grader', async () => {
    const forever = async (): Promise<void> => new Promise(() => {})
    const slow = new LocalBackend({ workflow: workflow(forever) })
    expect(await endOf(slow, { agentTimeoutSeconds: 0.02 })).toMatchObject({
      kind: 'failed',
      category: 'timeout',
      message: expect.stringContaining('workflow exceeded'),
    })
    const chatCompletionsUrl = await policyUrl()
    const times = { chatCompletionsUrl, graderTimeoutSeconds: 0.02 }
    expect(await endOf(asking(['a'], forever), times)).toMatchObject({
      kind: 'failed',
      category: 'timeout',
      message: expect.stringContaining('grader exceeded'),
    })
  })

  it('names who cancelled it: the trainer, an expired lease, or a shutdown', async () => {
    const ended = async (end: (backend: LocalBackend) => void): Promise<ExecutionOutcome> => {
      const backend: LocalBackend = new LocalBackend({
        workflow: workflow(async () => {
          end(backend)
          await new Promise(() => {})
        }),
      })
      return endOf(backend)
    }
    expect(await ended((backend) => backend.cancel({ all: true }))).toEqual({
      kind: 'cancelled',
      by: 'trainer',
      message: 'cancelled',
    })
    const reason = new OsmosisError('lease_expired', 'polling lease expired')
    expect(await ended((backend) => backend.cancel({ all: true }, reason))).toEqual({
      kind: 'cancelled',
      by: 'lease',
      message: 'polling lease expired',
    })
    expect(await ended((backend) => backend.shutdown())).toMatchObject({
      kind: 'cancelled',
      by: 'shutdown',
    })
  })

  it('is a failure when no model call was answered', async () => {
    const backend = new LocalBackend({
      workflow: workflow(() => registerSamples('a')),
      grader: grader(rewardAll),
    })
    expect(await endOf(backend)).toMatchObject({
      kind: 'failed',
      category: 'validation_error',
      message: expect.stringContaining('nothing to train on'),
    })
  })

  it('is a failure when the backend throws, or ends without a result', async () => {
    const local = asking(['a'], rewardAll)
    const throwing = Object.assign(Object.create(local) as ExecutionBackend, {
      execute: () => {
        throw new Error('lost its machine')
      },
    })
    expect(await endOf(throwing)).toEqual({
      kind: 'failed',
      category: 'agent_error',
      message: 'lost its machine',
    })
    const silent = Object.assign(Object.create(local) as ExecutionBackend, {
      async *execute() {},
    })
    expect(await endOf(silent)).toMatchObject({
      kind: 'failed',
      message: expect.stringContaining('without a result'),
    })
  })

  it('agrees with the events', async () => {
    const heard: string[] = []
    const url = await policyUrl()
    const end = await endOf(asking(['a'], rewardAll), { chatCompletionsUrl: url }, (event) => {
      const what = event.type === 'started' ? '' : ` ${event.outcome.status}`
      heard.push(`${event.type}${what}`)
    })
    expect(end.kind).toBe('rewarded')
    expect(heard).toEqual(['started', 'workflow success', 'graded success'])
  })

  it('has the id of each call, and whether it was answered', async () => {
    const { samples } = await rewarded(['a'])
    expect(samples.get('a')?.calls).toMatchObject([{ id: 'chatcmpl-1', error: null }])
  })
})

describe('the one reward of a rollout', () => {
  it('is that of its only sample in training', async () => {
    expect(oneReward(await rewarded(['a']))).toBe(0.5)
    const two = await rewarded(['a', 'b'])
    expect(() => oneReward(two)).toThrow(
      expect.objectContaining({
        code: 'invalid_reward',
        message: expect.stringContaining('has 2 samples (a, b)'),
      }),
    )
  })

  it('is the mean, the sum or that of a named sample, as the rule says', async () => {
    const end = await rewarded(['a', 'b'])
    expect(oneReward(end, 'mean')).toBe(0.75)
    expect(oneReward(end, 'sum')).toBe(1.5)
    expect(oneReward(end, { sampleId: 'b' })).toBe(1)
    expect(() => oneReward(end, { sampleId: 'z' })).toThrow(
      expect.objectContaining({
        code: 'unknown_sample',
        message: expect.stringContaining('has rewards only for: a, b'),
      }),
    )
  })

  it('may be below zero, whatever the rule', async () => {
    const rewards = { a: -0.5, b: -1 }
    const names = Object.keys(rewards)
    const backend = asking(names, (ctx) => {
      for (const [id, reward] of Object.entries(rewards)) ctx.setSampleReward(id, reward)
    })
    const end = asRewarded(await endOf(backend, { chatCompletionsUrl: await policyUrl() }))
    const one = new Map([...end.samples].slice(0, 1))
    expect(oneReward({ ...end, samples: one })).toBe(-0.5)
    expect(oneReward(end, 'mean')).toBe(-0.75)
    expect(oneReward(end, 'sum')).toBe(-1.5)
    expect(oneReward(end, { sampleId: 'b' })).toBe(-1)
  })

  it('does not exist when some samples were removed, whose calls would be trained with it', async () => {
    const backend = asking(['a', 'b'], (ctx) => {
      rewardAll(ctx)
      ctx.removeSample('b')
    })
    const end = asRewarded(await endOf(backend, { chatCompletionsUrl: await policyUrl() }))
    expect(end.removed).toEqual(['b'])
    for (const rule of ['single', 'mean', { sampleId: 'a' }] as const) {
      expect(() => oneReward(end, rule)).toThrow(
        expect.objectContaining({
          code: 'invalid_reward',
          message: expect.stringContaining('removed b'),
        }),
      )
    }
    expect(oneReward({ ...end, removed: [] })).toBe(0.5)
  })

  it('ignores removed samples without model calls', async () => {
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        await ask('a')
        registerSamples('b')
      }),
      grader: grader((ctx) => {
        ctx.setSampleReward('a', 0.5)
        if (ctx.samples.has('b')) ctx.removeSample('b')
      }),
    })
    const end = asRewarded(await endOf(backend, { chatCompletionsUrl: await policyUrl() }))
    expect(oneReward(end)).toBe(0.5)
  })
})
