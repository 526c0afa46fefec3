import {
  compareRuns,
  type Comparison,
  type RunRow,
  RunTable,
  toRunDocument,
} from '@osmosis/eval/analysis'
import { expect, test } from 'vitest'

import { madeEvent } from '../../../../test/kit/index.ts'
import { eventsOf, manifestOf } from './runs.ts'

type Rewards = readonly (readonly (number | null)[])[]

function tableOf(rewards: Rewards, rows: number | readonly RunRow[] = rewards.length): RunTable {
  return new RunTable(toRunDocument(manifestOf(rows), eventsOf(rewards)))
}

function sentenceOf({ verdict: { lead, rest } }: Comparison): string {
  return `${lead}${rest}`
}

/** `count` times the same row. */
function times(count: number, row: readonly number[]): number[][] {
  return Array.from({ length: count }, () => [...row])
}

test('a sure difference is said with its interval', () => {
  const before = tableOf([...times(60, [0, 0, 1, 1]), ...times(20, [1, 1, 1, 1])])
  const after = tableOf([
    ...times(30, [0, 1, 1, 1]),
    ...times(30, [0, 0, 1, 1]),
    ...times(20, [1, 1, 1, 1]),
  ])
  expect(sentenceOf(compareRuns(before, after))).toBe(
    'Better by 9.4 points, with 95 % confidence between 6.7 and 12.1.',
  )
  expect(sentenceOf(compareRuns(after, before))).toBe(
    'Worse by 9.4 points, with 95 % confidence between 6.7 and 12.1.',
  )
  expect(sentenceOf(compareRuns(before, after, { metric: 'reward' }))).toBe(
    'Better by 0.094, with 95 % confidence between 0.067 and 0.121.',
  )
})

test('an insignificant difference is reported with the detectable change', () => {
  const before = tableOf([...times(10, [0, 1]), ...times(10, [1, 0]), ...times(80, [1, 1])])
  const after = tableOf([...times(10, [1, 1]), ...times(9, [0, 0]), ...times(81, [1, 1])])
  const comparison = compareRuns(before, after)
  expect(comparison.verdict.tone).toBe('none')
  expect(sentenceOf(comparison)).toMatch(
    /^No significant difference: \+1\.0 points ± 4\.\d\. These rows detect a true change of 6\.\d with 80 % power\.$/,
  )
})

test('below ten rows there is no verdict, and for equal runs no row differs', () => {
  expect(sentenceOf(compareRuns(tableOf(times(9, [0])), tableOf(times(9, [1]))))).toBe(
    'Too few rows to compare.',
  )
  expect(sentenceOf(compareRuns(tableOf(times(10, [0])), tableOf(times(10, [1]))))).toBe(
    'Better by 100.0 points in every row.',
  )
  expect(sentenceOf(compareRuns(tableOf(times(12, [0, 1])), tableOf(times(12, [1, 0]))))).toBe(
    'No row differs.',
  )
  expect(sentenceOf(compareRuns(tableOf(times(12, [0, 0])), tableOf(times(12, [1, 0]))))).toBe(
    'Better by 50.0 points in every row.',
  )
})

test('rows are matched by their key, wherever they lie in their datasets, and others are counted', () => {
  const rows = (...keys: string[]): RunRow[] => keys.map((key, at) => ({ key, source_row: at }))
  const keyed = (keys: string[], rewards: Rewards): RunTable =>
    new RunTable(
      toRunDocument(
        manifestOf(rows(...keys)),
        eventsOf(rewards).map((event) => ({
          ...event,
          row_key: keys[event.source_row_index] ?? '',
        })),
      ),
    )
  const a = keyed(
    ['x', 'twice', 'twice', 'gone'],
    [
      [1, 1],
      [0, 0],
      [1, 0],
      [1, 1],
    ],
  )
  const b = keyed(
    ['new', 'twice', 'x', 'twice'],
    [
      [0, 0],
      [1, 0],
      [0, 1],
      [1, 1],
    ],
  )
  const { rows: changes, onlyA, onlyB, lostSure, before, after } = compareRuns(a, b)
  expect(changes.map(({ key, a: from, b: to, change }) => [key, from.row, to.row, change])).toEqual(
    [
      ['x', 0, 2, -0.5],
      ['twice', 1, 1, 0.5],
      ['twice', 2, 3, 0.5],
    ],
  )
  expect({ onlyA, onlyB, lostSure, before: before.value, after: after.value }).toEqual({
    onlyA: 1,
    onlyB: 1,
    lostSure: 1,
    before: 0.5,
    after: 4 / 6,
  })
})

test('a row that is sure in both runs is not lost', () => {
  const [sure, unsure] = [tableOf(times(3, [1, 1])), tableOf(times(3, [0, 1]))]
  const lost = [compareRuns(sure, sure), compareRuns(sure, unsure), compareRuns(unsure, unsure)]
  expect(lost.map(({ lostSure }) => lostSure)).toEqual([0, 3, 0])
})

test('a facet is compared value by value, the most improved first', () => {
  const rows = Array.from({ length: 40 }, (_, at) => ({
    key: `key-${at}`,
    source_row: at,
    facets: { task: at < 12 ? 'refund' : at < 30 ? 'cancel' : 'tiny' },
  })).slice(0, 35)
  const before = tableOf(times(35, [0, 1]), rows)
  const after = tableOf(
    rows.map(({ facets }, at) => (facets.task === 'cancel' && at % 3 > 0 ? [1, 1] : [0, 1])),
    rows,
  )
  const { facets } = compareRuns(before, after, { by: 'task' })
  expect(
    facets.map(({ value, verdict, difference }) => [value, verdict.tone, difference.rows]),
  ).toEqual([
    ['cancel', 'better', 18],
    ['refund', 'none', 12],
    ['tiny', 'unknown', 5],
  ])
  expect(compareRuns(before, after).facets).toEqual([])
})

test('behaviour before and after, of what both runs know', () => {
  const run = (calls: number, cost: number | null): RunTable =>
    new RunTable(
      toRunDocument(
        manifestOf(12),
        Array.from({ length: 12 }, (_, row) =>
          madeEvent(row, 0, {
            calls: calls + (row % 2),
            cost_usd: cost,
            finish: { length: row % 3 === 0 ? 1 : 0 },
          }),
        ),
      ),
    )
  const { behaviour } = compareRuns(run(3, 0.1), run(5, null))
  expect(behaviour.find(({ key }) => key === 'calls')).toMatchObject({
    title: 'Model calls per rollout',
    unit: 'count',
    before: 3.5,
    after: 5.5,
    difference: { value: 2, better: 12 },
  })
  expect(behaviour.find(({ key }) => key === 'cut')).toMatchObject({
    unit: 'share',
    before: expect.closeTo(1 / 3, 9),
    difference: { value: 0 },
  })
  expect(behaviour.some(({ key }) => key === 'cost_usd')).toBe(false)
})

test('behaviour excludes items that were removed from training', () => {
  const run = (calls: number): RunTable =>
    new RunTable(
      toRunDocument(manifestOf(1), [
        madeEvent(0, 0),
        madeEvent(0, 1, { status: 'skipped', reward: null, calls }),
      ]),
    )
  const { behaviour } = compareRuns(run(1), run(99))
  expect(behaviour.find(({ key }) => key === 'calls')).toMatchObject({ before: 1, after: 1 })
})
