import { alarmsOf, measureRollouts, type StepRecord } from '@osmosis/eval/analysis'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { eventsOf, manifestOf } from './runs.ts'

/** A step with this mean reward, and this entropy of its update. */
function stepOf(step: number, reward: number | null, entropy: number | null): StepRecord {
  const { figures } = measureRollouts(manifestOf(1), eventsOf([[0, 1]]), 1)
  const unknown = { loss: null, clipFraction: null, kl: null, gradNorm: null }
  const counts = { sequences: 1, tokens: 1, seconds: 1 }
  return {
    kind: 'step',
    step,
    phase: 'policy_gradient',
    run: `step-${step}`,
    version: step,
    sampledBy: step - 1,
    rollouts: { ...figures, reward },
    batch: {
      groups: 1,
      groupsWithSignal: 1,
      sequences: 1,
      tokens: 1,
      stale: 0,
      splits: 0,
      withoutIds: 0,
      untrainable: 0,
    },
    update: { ...unknown, entropy, driftMean: 0, driftMax: 0, ...counts },
    rows: [0],
    settledRows: [],
    alarms: [],
    endedAt: '2026-11-20T09:00:00.000Z',
  }
}

/** The alarms about a collapse, by step. */
function collapses(steps: readonly (readonly [reward: number | null, entropy: number | null])[]): {
  readonly [step: number]: string
} {
  const records = steps.map(([reward, entropy], at) => stepOf(at + 1, reward, entropy))
  return Object.fromEntries(
    records.flatMap((record, at) =>
      alarmsOf(record, records.slice(0, at))
        .filter((alarm) => alarm.includes('collapses'))
        .map((alarm) => [record.step, alarm] as const),
    ),
  )
}

const good = [
  [0.4, 1],
  [0.6, 0.9],
  [0.8, 0.8],
  [0.8, 0.8],
] as const

it.each([
  ['its entropy rises far', 2.6, 'and the entropy rose from 0.83 to 2.60, '],
  ['its entropy falls far', 0.2, 'and the entropy fell from 0.83 to 0.20, '],
] as const)('a reward that falls while %s is called a collapse at once', (_, entropy, words) => {
  expect(collapses([...good, [0.2, entropy]])).toEqual({
    5: `The reward fell from 0.73 to 0.20, ${words}so the policy collapses: stop, lower lr or set kl, and continue from the best checkpoint.`,
  })
})

it('a reward that stays low is a collapse whatever is known of the entropy', () => {
  const low = [0.1, 0.1, 0.1, 0.1].map((reward) => [reward, null] as const)
  expect(Object.keys(collapses([...good, ...low]))).toEqual(['6', '7', '8'])
  expect(collapses([...good, ...low])[6]).toContain('fell from 0.73 to 0.10, so the policy')
  // Negative rewards can fall, too.
  const negative = [-1, -1, -1, -3, -3, -3].map((reward) => [reward, null] as const)
  expect(Object.keys(collapses(negative))).toEqual(['4', '5', '6'])
})

it('neither a better policy nor one bad step is a collapse', () => {
  expect(collapses([...good, [0.2, 0.8], [0.8, 0.7], [0.9, 0.3], [0.95, 0.1]])).toEqual({})
  // Steps without any reward are those of machines that failed.
  const failed = [null, null, null].map((reward) => [reward, 9] as const)
  expect(collapses([...good, ...failed, [0.8, 0.8]])).toEqual({})
  // The entropy falls as the reward rises.
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 0.3, noNaN: true })), (gains) => {
      let reward = 0
      const rising = gains.map((gain, at) => [(reward += gain), 2 / (at + 1) ** 2] as const)
      expect(collapses(rising)).toEqual({})
    }),
  )
})

it('intervals of rewards and of passes have only values that these can have', () => {
  const rewards = fc.oneof(
    fc.constantFrom(0, 1),
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.constant(null),
  )
  fc.assert(
    fc.property(
      fc.array(fc.array(rewards, { minLength: 2, maxLength: 4 }), { minLength: 2 }),
      (rows) => {
        const { figures } = measureRollouts(manifestOf(rows.length), eventsOf(rows), 1)
        const { reward, rewardFrom, rewardTo, passRate, passFrom, passTo } = figures
        for (const [low, value, high] of [
          [rewardFrom, reward, rewardTo],
          [passFrom, passRate, passTo],
        ]) {
          const ordered = [0, low ?? value ?? 0, value ?? 0, high ?? value ?? 1, 1]
          expect(ordered).toEqual(ordered.toSorted((a, b) => a - b))
        }
      },
    ),
  )
  const wide = measureRollouts(
    manifestOf(2),
    eventsOf([
      [1, 1],
      [0, 1],
    ]),
    1,
  ).figures
  expect([wide.rewardFrom, wide.rewardTo]).toEqual([0, 1])
  // Rewards beyond 1, or below 0, can be anything on that side.
  const beyond = measureRollouts(
    manifestOf(2),
    eventsOf([
      [5, 5],
      [0, 1],
    ]),
    1,
  ).figures
  expect(beyond.rewardFrom).toBe(0)
  expect(beyond.rewardTo).toBeGreaterThan(5)
  const below = measureRollouts(
    manifestOf(2),
    eventsOf([
      [-1, -1],
      [1, 1],
    ]),
    1,
  ).figures
  expect(below.rewardFrom).toBeLessThan(-1)
  expect(below.rewardTo).toBe(1)
})
