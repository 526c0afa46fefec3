import { setImmediate as turn } from 'node:timers/promises'

import {
  train,
  type OpenRollouts,
  type TrainingBatch,
  type TrainOptions,
  type UpdateFigures,
  type UpdateSettings,
} from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { knownRow, KnownLearner } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'

/** Says when its updates begin and end. An update takes a few turns of the event loop, in which rollouts can begin. */
class SlowLearner extends KnownLearner {
  readonly #log: string[]

  constructor(log: string[]) {
    super({})
    this.#log = log
  }

  override async update(batch: TrainingBatch, settings: UpdateSettings): Promise<UpdateFigures> {
    const number = this.version + 1
    this.#log.push(`update ${number} begins`)
    for (let passed = 0; passed < 5; passed += 1) await turn()
    const figures = await super.update(batch, settings)
    this.#log.push(`update ${number} ends`)
    return figures
  }
}

/** What happened in which order, by the names of runs and the numbers of updates. */
async function logOf(more: Partial<TrainOptions>): Promise<string[]> {
  const log: string[] = []
  await train({
    folder: await temporaryFolder(),
    learner: new SlowLearner(log),
    rollouts: quickRollouts(({ attempt }) => attempt, {
      startStep: (seed) => void log.push(seed.replace(/^0\//, '')),
    }),
    rows: [knownRow(0)],
    steps: 3,
    attempts: 2,
    ...more,
  })
  return log
}

it('without staleness each step begins when the update before it has ended', async () => {
  const expected = [1, 2, 3].flatMap((step) => [
    `step-000${step}`,
    `update ${step} begins`,
    `update ${step} ends`,
  ])
  expect(await logOf({})).toEqual(expected)
})

it('with staleness a step begins beside the update before it, and none behind the last one', async () => {
  const log = await logOf({ maxStaleness: 1 })
  expect(log).toEqual([
    'step-0001',
    'step-0002',
    'update 1 begins',
    'update 1 ends',
    'step-0003',
    'update 2 begins',
    'update 2 ends',
    'update 3 begins',
    'update 3 ends',
  ])
})

it('no step begins before the evaluation of the version that answers it', async () => {
  const heldOut = [knownRow(1)]
  const log = await logOf({ maxStaleness: 1, heldOut, evaluateEvery: 2, steps: 4 })
  const runs = log.filter((event) => !event.startsWith('update'))
  expect(runs).toEqual([
    'before',
    'step-0001',
    'step-0002',
    'after-step-0002',
    'step-0003',
    'step-0004',
    'after-step-0004',
  ])
  expect(log.indexOf('update 2 ends')).toBeLessThan(log.indexOf('after-step-0002'))
})

it('no step begins beside an update behind which the training ends', async () => {
  const log = await logOf({ maxStaleness: 1, stopWhen: { reward: 0.5 } })
  expect(log).toEqual(['step-0001', 'update 1 begins', 'update 1 ends'])
})

it('no rollout runs any more when a training has failed', async () => {
  let running = 0
  let isFirst = true
  const bothRun = Promise.withResolvers<void>()
  const quick = quickRollouts(({ attempt }) => attempt)
  const rollouts: OpenRollouts = async (policy) => {
    const source = await quick(policy)
    return {
      ...source,
      runner: {
        async run(item, options) {
          if (isFirst) return source.runner.run(item, options)
          running += 1
          if (running === 2) bothRun.resolve()
          try {
            // Those of the second step end only when they are interrupted, and not at once.
            await new Promise((resolve) =>
              options.signal.addEventListener('abort', resolve, { once: true }),
            )
            for (let passed = 0; passed < 5; passed += 1) await turn()
            throw options.signal.reason
          } finally {
            running -= 1
          }
        },
      },
    }
  }
  class FailingLearner extends KnownLearner {
    override async update(): Promise<UpdateFigures> {
      isFirst = false
      await bothRun.promise
      throw new Error('no memory')
    }
  }
  const learner = new FailingLearner({})
  const options = { folder: await temporaryFolder(), learner, rollouts, maxStaleness: 1 }
  const made = train({ ...options, rows: [knownRow(0)], steps: 2, attempts: 2 })
  await expect(made).rejects.toThrow('no memory')
  expect(running).toBe(0)
})
