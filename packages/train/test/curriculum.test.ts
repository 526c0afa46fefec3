import path from 'node:path'

import { openRun } from '@osmosis/eval'
import { train, type StepRecord, type TrainOptions, type TrainResult } from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { knownRow, KnownLearner } from './known-rollouts.ts'
import { quickRollouts, type QuickAttempt } from './quick-rollouts.ts'

/** What the two attempts at a row get when it is tried once more. */
const kinds = {
  'always differs': () => 'differs',
  'always agrees': () => 'agrees',
  'agrees at first': (before: number) => (before === 0 ? 'agrees' : 'differs'),
  'agrees later': (before: number) => (before === 0 ? 'differs' : 'agrees'),
} satisfies Record<string, (before: number) => 'agrees' | 'differs'>
const kindNames = Object.keys(kinds) as (keyof typeof kinds)[]

/** Positions in the dataset, which are not the places in the list of rows. */
const positions = Array.from({ length: 40 }, (_, at) => 100 + 3 * at)

function outcomeOf(row: number, before: number): 'agrees' | 'differs' {
  const kind = kindNames[positions.indexOf(row) % kindNames.length] ?? 'always differs'
  return kinds[kind](before)
}

function rewardOf({ row, attempt, before }: QuickAttempt): number {
  return outcomeOf(row, before) === 'agrees' ? 0.5 : attempt
}

async function trained(more: Partial<TrainOptions>): Promise<TrainResult> {
  return train({
    folder: await temporaryFolder(),
    learner: new KnownLearner({}),
    rollouts: quickRollouts(rewardOf),
    rows: positions.map(knownRow),
    steps: 40,
    rowsPerStep: 8,
    attempts: 2,
    checkpointEvery: 1000,
    curriculum: true,
    seed: 3,
    ...more,
  })
}

/** How many of the rows that `size` draws take one after the other are settled, on average. */
function expectedSettled(settled: number, others: number, size: number, weight: number): number {
  if (size === 0 || settled + others === 0) return 0
  const share = (weight * settled) / (weight * settled + others)
  const [drawn, not] = [
    share === 0 ? 0 : 1 + expectedSettled(settled - 1, others, size - 1, weight),
    share === 1 ? 0 : expectedSettled(settled, others - 1, size - 1, weight),
  ]
  return share * drawn + (1 - share) * not
}

/** How often rows were drawn, and how often a curriculum would draw them on average. */
interface Account {
  readonly drawn: { settled: number; differsAgain: number }
  readonly expected: { settled: number; differsAgain: number }
}

/** Follows a training step by step. @param weight - how often a settled row is drawn, compared with the others */
function accountOf(steps: readonly Pick<StepRecord, 'rows'>[], weight: number): Account {
  const tries = new Map<number, number>()
  const [settled, everSettled] = [new Set<number>(), new Set<number>()]
  const account = {
    drawn: { settled: 0, differsAgain: 0 },
    expected: { settled: 0, differsAgain: 0 },
  }
  for (const { rows } of steps) {
    expect(new Set(rows).size).toBe(8)
    const others = positions.filter((row) => !settled.has(row))
    const again = others.filter((row) => everSettled.has(row))
    const mean = expectedSettled(settled.size, others.length, rows.length, weight)
    account.expected.settled += mean
    account.expected.differsAgain += ((8 - mean) * again.length) / others.length
    account.drawn.settled += rows.filter((row) => settled.has(row)).length
    account.drawn.differsAgain += rows.filter((row) => again.includes(row)).length
    for (const row of rows) {
      const before = tries.get(row) ?? 0
      tries.set(row, before + 1)
      settled.delete(row)
      if (outcomeOf(row, before) === 'agrees')
        for (const set of [settled, everSettled]) set.add(row)
    }
  }
  return account
}

it('a row whose attempts agreed is drawn a quarter as often, until they differ again', async () => {
  const { steps } = await trained({})
  const { drawn, expected } = accountOf(steps, 1 / 4)
  // Of 320 draws. Deviations are about 7; rows that are not rested would be drawn twice as often, or half as often.
  expect(expected.settled).toBeGreaterThan(50)
  expect(Math.abs(drawn.settled - expected.settled)).toBeLessThan(18)
  expect(expected.differsAgain).toBeGreaterThan(60)
  expect(Math.abs(drawn.differsAgain - expected.differsAgain)).toBeLessThan(18)
})

it('without a curriculum rows are drawn equally often, whether their attempts agree or not', async () => {
  const { steps } = await trained({ curriculum: false, steps: 10 })
  const counts = new Map<number, number>()
  for (const row of steps.flatMap(({ rows }) => rows)) counts.set(row, (counts.get(row) ?? 0) + 1)
  expect([...counts].toSorted(([a], [b]) => a - b)).toEqual(positions.map((row) => [row, 2]))
})

it('steps say which of their rows settled', async () => {
  const { steps } = await trained({ steps: 6 })
  const tries = new Map<number, number>()
  for (const { rows, settledRows } of steps) {
    const settled = rows.filter((row) => outcomeOf(row, tries.get(row) ?? 0) === 'agrees')
    expect(settledRows.toSorted((a, b) => a - b)).toEqual(settled.toSorted((a, b) => a - b))
    for (const row of rows) tries.set(row, (tries.get(row) ?? 0) + 1)
  }
})

it('a training that continues knows which rows had settled', { tags: 'slow' }, async () => {
  const whole = await trained({ steps: 12 })
  const folder = await temporaryFolder()
  const rollouts = await continuing()
  await trained({ folder, rollouts, steps: 7 })
  const { steps } = await trained({ folder, rollouts, steps: 12 })
  expect(steps.map(({ rows }) => rows)).toEqual(whole.steps.map(({ rows }) => rows))
})

/** Rollouts that know across processes how often a row was tried. */
async function continuing(): Promise<TrainOptions['rollouts']> {
  const source = await quickRollouts(rewardOf)(new KnownLearner({}).policy)
  return async () => source
}

it('rollouts that run beside an update have the rows that the step before decides', async () => {
  const { steps, runs } = await trained({ steps: 12, maxStaleness: 1 })
  for (const { run, rows } of steps) {
    const { manifest } = await openRun(path.join(runs, run))
    expect(manifest.rows.map(({ source_row: row }) => row)).toEqual(rows)
  }
})
