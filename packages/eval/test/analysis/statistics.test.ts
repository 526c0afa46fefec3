import {
  compareRuns,
  type Estimate,
  type ItemEvent,
  RunTable,
  runStatistics,
  toRunDocument,
} from '@osmosis/eval/analysis'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'

import { madeEvent } from '../../../../test/kit/index.ts'
import { gradientChance, passAtK, passHatK } from '../../src/analysis/figures/reward-figures.ts'
import { tQuantile } from '../../src/analysis/statistics/estimate.ts'
import { eventsOf, manifestOf } from './runs.ts'

// All expected figures were computed apart from this project: sums as exact fractions (Python's
// fractions), roots and Student's t with 40 digits (mpmath, the root of 1 − I(ν/(ν+t²); ν/2, 1/2)/2).

type Attempt = readonly [reward: number | null, tokens: number, toolCalls: number, errors: number]
const attempts: readonly (readonly Attempt[])[] = [
  [
    [1, 120, 2, 0],
    [0, 340, 3, 1],
    [1, 95, 1, 0],
    [0.5, 210, 2, 1],
  ],
  [
    [0, 400, 4, 4],
    [0, 380, 4, 2],
    [null, 0, 0, 0],
    [0, 410, 5, 3],
  ],
  [
    [1, 80, 1, 0],
    [1, 85, 1, 0],
    [1, 90, 1, 0],
    [1, 75, 1, 0],
  ],
  [
    [0.25, 150, 2, 0],
    [0.25, 160, 2, 1],
  ],
  [
    [1, 60, 0, 0],
    [0, 500, 6, 2],
    [0, 450, 5, 0],
    [null, 20, 1, 0],
  ],
  [
    [1, 130, 2, 0],
    [1, 110, 2, 0],
    [0, 300, 3, 0],
  ],
  [
    [0.75, 200, 2, 0],
    [1, 140, 2, 0],
    [0.75, 220, 2, 1],
    [0, 330, 3, 0],
  ],
]
const events = attempts.flatMap((row, at) =>
  row.map(([reward, tokens, calls, errors], attempt): ItemEvent => {
    const known = { completion_tokens: tokens, tool_calls: calls, tool_errors: errors }
    return madeEvent(at, attempt, {
      ...known,
      ...(reward === null ? { status: 'failed' } : {}),
      reward,
      tools: calls === 0 ? [] : [{ name: 'search', calls, errors }],
    })
  }),
)
// An item whose samples were taken out of training is in no figure.
const skipped = madeEvent(5, 3, { status: 'skipped', reward: null, completion_tokens: 9999 })
const table = new RunTable(toRunDocument(manifestOf(7), [...events, skipped]))
const { stats, groups, behaviour } = runStatistics(table)

function estimate(value: number, low: number, high: number, rows: number): Estimate {
  return { value: near(value), ci95: [near(low), near(high)], rows } as unknown as Estimate
}

function near(value: number): unknown {
  return expect.closeTo(value, 9)
}

test('means and rates are clustered by row', () => {
  expect(stats.mean).toEqual(estimate(0.54347826086956, 0.23762939957318, 0.84932712216594, 7))
  expect(stats.pass_rate).toEqual(estimate(0.4, 0.05775875126081, 0.74224124873918, 7))
  expect(stats.pass_rate_graded).toEqual(
    estimate(0.43478260869565, 0.09467679018189, 0.7748884272094, 7),
  )
  expect(stats.spread).toEqual(estimate(0.29520382773566, 0.03544556005477, 0.55496209541654, 7))
})

test('pass@k and pass^k leave rows with fewer attempts out, and count them', () => {
  expect(stats.pass_at_k).toEqual([
    {
      k: 1,
      ...estimate(0.380952380952381, 0.042493493483737, 0.71941126842102, 7),
      left_out: 0,
      rough: false,
    },
    {
      k: 2,
      ...estimate(0.54761904761904, 0.15248181871225, 0.94275627652583, 7),
      left_out: 0,
      rough: true,
    },
    { k: 4, ...estimate(0.8, 0.24471097896044, 1.355289021039559, 5), left_out: 2, rough: true },
  ])
  expect(stats.pass_hat_k).toEqual([
    {
      k: 1,
      ...estimate(0.380952380952381, 0.042493493483737, 0.71941126842102, 7),
      left_out: 0,
      rough: false,
    },
    {
      k: 2,
      ...estimate(0.21428571428571, -0.12708559590155, 0.55565702447298, 7),
      left_out: 0,
      rough: true,
    },
    {
      k: 4,
      ...estimate(0.2, -0.35528902103955, 0.75528902103955, 5),
      left_out: 2,
      rough: true,
    },
  ])
})

test('rows with a training signal, now and at other group sizes', () => {
  expect(groups).toEqual({ rows: 7, never: 1, signal: 4, flat: 1, always: 1 })
  expect(stats.gradient).toEqual(estimate(0.57142857142857, 0.07707772488276, 1.065779417974382, 7))
  expect(stats.gradient_at).toEqual([
    {
      k: 2,
      ...estimate(0.38095238095238, 0.01712000922244, 0.74478475268233, 7),
      left_out: 0,
      rough: true,
    },
    {
      k: 4,
      ...estimate(0.6, -0.080087380658255, 1.280087380658255, 5),
      left_out: 2,
      rough: true,
    },
  ])
})

test('a row of which one attempt has ended says nothing about gradients yet', () => {
  const run = new RunTable(toRunDocument(manifestOf(3), eventsOf([[0, 1], [1, 1], [1]])))
  expect(runStatistics(run).stats.gradient).toMatchObject({ value: 0.5, rows: 2 })
})

test('there is one share of rows with a training signal, whatever failed', () => {
  const rewards = [
    [0, null, 1, null],
    [null, null, null, null],
    [1, null, 1, 1],
    [1, 1, 1, 1],
  ]
  const run = new RunTable(toRunDocument(manifestOf(4), eventsOf(rewards)))
  const { gradient, gradient_at: sizes } = runStatistics(run).stats
  expect(gradient).toMatchObject({ value: 0.25, rows: 4 })
  expect(sizes.at(-1)).toMatchObject({ k: 4, value: 0.25, rows: 4, left_out: 0 })
  // An attempt without a reward has not passed.
  expect(runStatistics(run).groups).toStrictEqual({
    rows: 4,
    never: 1,
    signal: 1,
    flat: 1,
    always: 1,
  })
})

test('figures about several attempts are rough below 50 rows', () => {
  const rough = (rows: number): (boolean | undefined)[] => {
    const rewards = Array.from({ length: rows }, () => [0, 1])
    const run = new RunTable(toRunDocument(manifestOf(rows, { n: 2 }), eventsOf(rewards)))
    return runStatistics(run).stats.pass_at_k.map((figure) => figure.rough)
  }
  expect([rough(49), rough(50)]).toEqual([
    [false, true],
    [false, false],
  ])
})

test('what the rollouts did', () => {
  expect(behaviour.completion_tokens).toEqual({
    mean: estimate(202.2, 131.6490306934798, 272.7509693065202, 7),
    p50: 150,
    p95: near(442),
    passed: near(98.5),
    others: near(271.3333333333333),
  })
  expect(behaviour.tool_error_rate).toEqual({
    ...estimate(0.26315789473684, -0.02586362468867, 0.55217941416236, 7),
    errors: 15,
    tool_calls: 57,
  })
  expect(behaviour.length_and_value).toEqual({ value: near(-0.92775419167976), rows: 4 })
  expect(behaviour.tools).toEqual([
    { name: 'search', rollouts: 23, calls: 57, errors: 15, pass_rate: near(9 / 23) },
  ])
  expect(behaviour.stuck).toMatchObject({ items: 2, mean_value: 0 })
  expect(behaviour.no_value).toEqual({ items: 2, by_type: { timeout: 2 } })
  expect(behaviour.skipped).toBe(1)
  expect(behaviour.cost_usd).toEqual({
    mean: { value: null, ci95: null, rows: 0 },
    p50: null,
    p95: null,
    passed: null,
    others: null,
  })
})

test('a comparison is paired by row', () => {
  const after = new RunTable(
    toRunDocument(
      manifestOf(7),
      eventsOf([
        [1, 1, 1, 0.5],
        [0, 1, 0, 0],
        [1, 1, 0, 1],
        [1, 0.25],
        [1, 0, 1, 0],
        [1, 1, 1],
        [1, 1, 0.75, 0],
      ]),
    ),
  )
  expect(compareRuns(table, after).difference).toEqual({
    ...estimate(0.22619047619047, 0.01412158136049, 0.43825937102045, 7),
    detectable: near(0.24267032964268),
    better: 6,
    worse: 1,
    same: 0,
  })
  expect(compareRuns(table, after, { metric: 'reward' }).difference).toEqual({
    ...estimate(0.16964285714285, -0.02635362785595, 0.36563934214167, 7),
    detectable: near(0.22427867916038),
    better: 6,
    worse: 1,
    same: 0,
  })
})

test('where nothing or everything passed, the interval ends at a one-sided bound', () => {
  const rateOf = (rewards: number[][]): Estimate => {
    const run = new RunTable(toRunDocument(manifestOf(rewards.length), eventsOf(rewards)))
    return runStatistics(run).stats.pass_rate
  }
  const rows = Array.from({ length: 7 }, () => [0, 0])
  // 1 − 0.05^(1/7)
  expect(rateOf(rows)).toEqual(estimate(0, 0, 0.34816365513116, 7))
  expect(rateOf(rows.map(() => [1, 1, 1]))).toEqual(estimate(1, 1 - 0.34816365513116, 1, 7))
  expect(rateOf([[0, 1]])).toEqual({ value: 0.5, ci95: null, rows: 1 })
  expect(rateOf([])).toEqual({ value: null, ci95: null, rows: 0 })
})

test('the mean of equal rewards has no interval', () => {
  const run = new RunTable(
    toRunDocument(manifestOf(12), eventsOf(Array.from({ length: 12 }, () => [0.1, 0.1, 0.1]))),
  )
  expect(runStatistics(run).stats.mean).toEqual({ value: near(0.1), ci95: null, rows: 12 })
})

test.each([
  [1, 12.7062047361747],
  [2, 4.30265272974946],
  [3, 3.18244630528371],
  [4, 2.77644510519779],
  [5, 2.57058183563632],
  [10, 2.22813885198627],
  [29, 2.0452296421327],
  [30, 2.04227245630124],
  [199, 1.97195654425175],
  [1000, 1.96233908082641],
  [24999, 1.96005888370157],
  [99999, 1.95998770777184],
])("Student's t with %i degrees of freedom", (degrees, quantile) => {
  expect(tQuantile(degrees)).toBeCloseTo(quantile, 9)
})

test('pass@k, pass^k and the chance of a training signal are the shares of all draws of k attempts', () => {
  const rewards = fc.array(fc.constantFrom(0, 0.5, 1, null), { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(rewards, fc.integer({ min: 1, max: 8 }), (all, size) => {
      const k = Math.min(size, all.length)
      const draws = Array.from({ length: 2 ** all.length }, (_, set) =>
        all.filter((_reward, at) => (set >> at) % 2 === 1),
      ).filter(({ length }) => length === k)
      const passing = draws.filter((draw) => draw.every((reward) => reward === 1))
      const reaching = draws.filter((draw) => draw.includes(1))
      const teaching = draws.filter(
        (draw) => new Set(draw.filter((reward) => reward !== null)).size > 1,
      )
      const passed = all.filter((reward) => reward === 1).length
      expect(passAtK(all.length, passed, k)).toBeCloseTo(reaching.length / draws.length, 12)
      expect(passHatK(all.length, passed, k)).toBeCloseTo(passing.length / draws.length, 12)
      expect(gradientChance(all, k)).toBeCloseTo(teaching.length / draws.length, 12)
    }),
  )
  // Binomials overflow here.
  expect(passAtK(10_000, 1, 5000)).toBeCloseTo(0.5, 10)
  expect(() => passHatK(3, 4, 1)).toThrow(RangeError)
  expect(() => gradientChance([1], 2)).toThrow(RangeError)
})

test('statistics are JSON data, also of a run without any item', () => {
  for (const run of [table, new RunTable(toRunDocument(manifestOf(3), []))]) {
    const statistics = runStatistics(run)
    expect(JSON.parse(JSON.stringify(statistics))).toEqual(statistics)
  }
})

test.each([
  ['a sum and its value', [0.3, 0.1 + 0.2], 0],
  ['sums in another order', [0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1], 0],
  ['what should be 0', [0, 0.3 - 0.2 - 0.1], 0],
  ['large sums', [3e6, (0.1 + 0.2) * 1e7], 0],
  ['a mean of thirds', [1, (1 / 3 + 1 / 3 + 1 / 3) * (1 - 2 ** -53)], 0],
  ['a small difference', [0.3, 0.3 + 1e-9], 1],
  ['a difference of large rewards', [1e6, 1e6 + 1], 1],
] as const)('rewards that differ by rounding have no training signal: %s', (_, rewards, signal) => {
  const compared = new RunTable(toRunDocument(manifestOf(1, { n: 2 }), eventsOf([rewards])))
  const { gradient, spread } = runStatistics(compared).stats
  expect([gradient.value, gradientChance(rewards, rewards.length)]).toEqual([signal, signal])
  expect((spread.value ?? 0) > 0).toBe(signal === 1)
})
