import { train, type TrainOptions } from '@osmosis/train'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { knownRow, KnownLearner } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'

/** Positions in the dataset, which are not the places in the list of rows. */
function positions(count: number): number[] {
  return Array.from({ length: count }, (_, at) => 100 + 3 * at)
}

async function rowsOfSteps(more: Partial<TrainOptions>, count: number): Promise<number[][]> {
  const { steps } = await train({
    folder: await temporaryFolder(),
    learner: new KnownLearner({}),
    rollouts: quickRollouts(({ attempt }) => attempt),
    rows: positions(count).map(knownRow),
    steps: 1,
    attempts: 2,
    checkpointEvery: 1000,
    ...more,
  })
  return steps.map(({ rows }) => [...rows])
}

const seeds = fc.integer({ min: 0, max: 1e9 })

it('each epoch is an order of its own of all rows, and another training with the seed has the same', async () => {
  await fc.assert(
    fc.asyncProperty(seeds, fc.constantFrom([8, 4], [9, 3], [7, 7]), async (seed, [rows, size]) => {
      const perEpoch = rows / size
      const options = { seed, rowsPerStep: size, steps: 4 * perEpoch }
      const steps = await rowsOfSteps(options, rows)
      const epochs = [0, 1, 2, 3].map((epoch) =>
        steps.slice(epoch * perEpoch, (epoch + 1) * perEpoch).flat(),
      )
      for (const epoch of epochs) {
        expect(epoch.toSorted((a, b) => a - b)).toEqual(positions(rows))
      }
      // By chance two orders of seven rows are the same once in 5,040 times.
      expect(new Set(epochs.map((epoch) => epoch.join())).size).toBeGreaterThan(2)
      expect(await rowsOfSteps({ ...options, steps: perEpoch + 1 }, rows)).toEqual(
        steps.slice(0, perEpoch + 1),
      )
    }),
    { numRuns: 3 },
  )
})

it('trainings with other seeds have other orders of rows', async () => {
  const orders = new Set<string>()
  for (const seed of [0, 1, 2, 7919]) {
    orders.add((await rowsOfSteps({ seed, rowsPerStep: 8 }, 8)).join())
  }
  expect(orders.size).toBe(4)
  // Without one it is 0.
  orders.add((await rowsOfSteps({ rowsPerStep: 8 }, 8)).join())
  expect(orders.size).toBe(4)
})

it('a step of a training that continues has the rows that it would have had', async () => {
  const options = { seed: 5, rowsPerStep: 4 }
  const whole = await rowsOfSteps({ ...options, steps: 5 }, 6)
  const folder = await temporaryFolder()
  await rowsOfSteps({ ...options, folder, steps: 2 }, 6)
  expect(await rowsOfSteps({ ...options, folder, steps: 5 }, 6)).toEqual(whole)
})
