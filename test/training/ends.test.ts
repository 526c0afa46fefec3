import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend, createRolloutServer, serve, silentLogger } from '@osmosis/server'
import { expect, test } from 'vitest'

import { tokenAnswer } from '../kit/index.ts'
import {
  FakeMiles,
  type FakeModel,
  type TrainedCall,
  type TrainingRow,
} from '../kit/trainers/index.ts'
import { osmosis, traced, type TrainerUnderTest } from './trainer-under-test.ts'
import { lightning } from './worked-trainers.ts'

/** How a rollout ends after two model calls, unless it makes none. */
const ends = [
  'rewarded with 0.5',
  'rewarded with 0',
  'rewarded with -0.5',
  'removed',
  'the agent throws',
  'the grader throws',
  'the grader says nothing',
  'the grader gives no number',
  'cancelled',
  'never asks',
] as const

type End = (typeof ends)[number]

function backendOfEnds(): LocalBackend {
  class Ending extends AgentWorkflow {
    async run(ctx: AgentWorkflowContext): Promise<void> {
      const end = endOf(ctx)
      const policy = requireRolloutContext('Ending').registerPolicySample('main')
      const messages = [...ctx.prompt]
      const calls = end === 'never asks' ? 0 : 2
      for (let turn = 0; turn < calls; turn += 1) {
        const { choices } = await policy.complete({ messages }, { signal: ctx.signal })
        messages.push(...choices.map(({ message }) => message), {
          role: 'user',
          content: 'Continue.',
        })
      }
      if (end === 'the agent throws') throw new Error('the sandbox has exited')
      if (end === 'cancelled') backend.cancel({ ids: [ctx.rolloutId] })
    }
  }
  class Judging extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      const end = endOf(ctx)
      if (end === 'the grader throws') throw new Error('the judge is ill')
      if (end === 'the grader says nothing') return
      if (end === 'removed') ctx.removeSample('main')
      else if (end === 'the grader gives no number') ctx.setReward(Number.NaN)
      else ctx.setReward(Number(end.replace('rewarded with ', '')))
    }
  }
  const backend = new LocalBackend({ workflow: Ending, grader: Judging, maxConcurrent: 32 })
  return backend
}

const rows: TrainingRow[] = ends.map((end) => ({
  initialMessages: [{ role: 'user', content: end }],
  label: 'a label',
  metadata: { end },
}))

/** Miles trains everything that was recorded, except what its own filter drops. */
const filteredMiles: TrainerUnderTest = {
  async open(model, backend) {
    const options = { backend, logger: silentLogger, trajectories: false, run: true }
    const server = await serve(createRolloutServer(options), { port: 0, host: '127.0.0.1' })
    const fake = await FakeMiles.start({ model, filter: true })
    return {
      async runBatch(batch, attempts) {
        const asked = batch.map(({ initialMessages: messages, ...row }) => ({ messages, ...row }))
        await fake.generate(server.url, asked, { attempts })
      },
      trained: () => fake.trained(),
      async [Symbol.asyncDispose]() {
        await fake.close()
        await server.close()
      },
    }
  },
}

test.each([
  ['Osmosis by callbacks', osmosis('callbacks')],
  ['Osmosis under leases', osmosis('leases')],
  ['Agent Lightning', lightning],
  ['Miles with the documented filter', filteredMiles],
  ['the trace of POST /run', traced],
])('%s trains only what has a reward', async (_name, trainer) => {
  await using open = await trainer.open(
    (body) => tokenAnswer(body, { content: 'ok' }),
    backendOfEnds(),
  )
  await open.runBatch(rows, 2)
  expect(rewardsByEnd(open.trained())).toEqual({
    'rewarded with 0.5': [0.5, 0.5, 0.5, 0.5],
    'rewarded with 0': [0, 0, 0, 0],
    'rewarded with -0.5': [-0.5, -0.5, -0.5, -0.5],
  })
})

test.each([['Osmosis by callbacks', osmosis('callbacks')]])(
  '%s trains each of several samples with its own reward',
  async (_name, trainer) => {
    const rewards = { good: 1, bad: -1, removed: null, fair: 0.25 }
    class Several extends AgentWorkflow {
      async run(): Promise<void> {
        for (const name of Object.keys(rewards)) {
          const messages = [{ role: 'user', content: name }]
          await requireRolloutContext('Several').registerPolicySample(name).complete({ messages })
        }
      }
    }
    class Each extends Grader {
      async grade(ctx: GraderContext): Promise<void> {
        for (const [name, reward] of Object.entries(rewards)) {
          // A sample that is removed may have a reward by then.
          ctx.setSampleReward(name, reward ?? 0.75)
          if (reward === null) ctx.removeSample(name)
        }
      }
    }
    const backend = new LocalBackend({ workflow: Several, grader: Each, maxConcurrent: 32 })
    const model: FakeModel = (body) => tokenAnswer(body, { content: 'ok' })
    await using open = await trainer.open(model, backend)
    await open.runBatch(rows.slice(0, 1), 2)
    expect(rewardsByEnd(open.trained())).toEqual({
      good: [1, 1],
      bad: [-1, -1],
      fair: [0.25, 0.25],
    })
  },
)

function endOf({ metadata }: { readonly metadata: unknown }): End {
  return (metadata as { end: End }).end
}

/** The first message of what was trained is the end of its rollout. */
function rewardsByEnd(trained: readonly TrainedCall[]): Record<string, number[]> {
  const rewards: Record<string, number[]> = {}
  for (const { promptIds, reward } of trained) {
    const [first] = JSON.parse(String.fromCodePoint(...promptIds)) as { content: string }[]
    ;(rewards[first?.content ?? ''] ??= []).push(reward)
  }
  return rewards
}
