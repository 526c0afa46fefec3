import {
  findings,
  type ItemEvent,
  parseQuery,
  RunTable,
  selectItems,
  toRunDocument,
} from '@osmosis/eval/analysis'
import { expect, test } from 'vitest'

import { madeEvent } from '../../../../test/kit/index.ts'
import { manifestOf } from './runs.ts'

const search = { tool_calls: 2, tools: [{ name: 'search', calls: 2, errors: 0 }] }

/** Forty rows with one pass each that used a tool; each with a summary of its own. */
function passes(change: (row: number) => Partial<ItemEvent> = () => ({})): RunTable {
  return new RunTable(
    toRunDocument(
      manifestOf(40, { n: 1 }),
      Array.from({ length: 40 }, (_, row) => madeEvent(row, 0, { ...search, ...change(row) })),
    ),
  )
}

test('flags describe what happened in a rollout', () => {
  const table = new RunTable(
    toRunDocument(manifestOf(11, { n: 1 }), [
      madeEvent(0, 0),
      madeEvent(1, 0, { status: 'failed' }),
      madeEvent(2, 0, { finish: { length: 1, stop: 2 } }),
      madeEvent(3, 0, { tool_errors: 2, tools: [{ name: 'a', calls: 9, errors: 2 }] }),
      madeEvent(4, 0, {
        tool_errors: 4,
        tools: [
          { name: 'a', calls: 9, errors: 2 },
          { name: 'b', calls: 9, errors: 2 },
        ],
      }),
      madeEvent(5, 0, { tool_errors: 3, tools: [{ name: 'a', calls: 9, errors: 3 }] }),
      madeEvent(6, 0, { rewritten: 1, completion_tokens: 5000 }),
      madeEvent(7, 0, { calls: 0, completion_tokens: null }),
      madeEvent(8, 0, { status: 'skipped', reward: null }),
      madeEvent(9, 0, { status: 'failed', calls: 0 }),
      madeEvent(10, 0, { limit: 'modelCalls' }),
    ]),
  )
  expect(Array.from({ length: 11 }, (_, item) => table.flags(item))).toEqual([
    [],
    ['failed'],
    ['cut'],
    ['toolerror'],
    ['toolerror'],
    ['stuck', 'toolerror'],
    ['rewritten', 'long'],
    ['nocalls'],
    ['skipped'],
    ['failed'],
    ['limited'],
  ])
  expect(table.count('toolerror')).toBe(3)
})

test('what wrote most is long only with more than twice the median', () => {
  const longest = (tokens: number): RunTable =>
    passes((row) => ({ completion_tokens: row === 0 ? tokens : 100 }))
  expect([longest(200).flags(0), longest(201).flags(0)]).toEqual([[], ['long']])
})

test('a pass without a tool call is flagged where more than 80 % of 20 passes use tools', () => {
  const without = (count: number) => (row: number) =>
    row < count ? { tool_calls: 0, tools: [] } : {}
  expect(passes(without(7)).suspicions(0)).toEqual(['notools'])
  expect(passes(without(7)).suspicions(7)).toEqual([])
  expect(passes(without(8)).suspicions(0)).toEqual([])
  const few = new RunTable(
    toRunDocument(
      manifestOf(19),
      Array.from({ length: 19 }, (_, row) => madeEvent(row, 0, row === 0 ? {} : search)),
    ),
  )
  expect(few.suspicions(0)).toEqual([])
})

test('so does one that wrote less than a quarter of the median pass', () => {
  const table = passes((row) => ({ completion_tokens: [24, 25, 0][row] ?? 100 }))
  expect([0, 1, 2].map((item) => table.suspicions(item))).toEqual([['short'], [], ['short']])
})

test('so does one that fails a check that 95 % of the passes meet', () => {
  const table = passes((row) => ({
    metrics: { confirmed: row < 2 ? 0 : 1, polite: row < 3 ? 0 : 1, messages: row },
  }))
  expect([0, 1, 2, 3].map((item) => table.suspicions(item))).toEqual([['check'], ['check'], [], []])
})

test('a pass whose last text passes in five rows or more is flagged, unless most passes have that text', () => {
  const same = (count: number) => (row: number) =>
    row < count ? { summary: 'REFUND_COMPLETE' } : {}
  expect(passes(same(4)).suspicions(0)).toEqual([])
  expect(passes(same(5)).suspicions(0)).toEqual(['sametext'])
  expect(passes(same(20)).suspicions(0)).toEqual(['sametext'])
  expect(passes(same(21)).suspicions(0)).toEqual([])
})

test('items that did not pass are never flagged as suspicious', () => {
  const table = passes((row) => (row < 7 ? { tool_calls: 0, tools: [], reward: 0 } : {}))
  expect(table.count('suspicious')).toBe(0)
})

test('findings are ranked by the number of items times their weight', () => {
  const table = new RunTable(
    toRunDocument(manifestOf(40, { n: 2 }), [
      ...Array.from({ length: 40 }, (_, row) =>
        madeEvent(row, 0, row < 3 ? { tool_calls: 0, tools: [] } : search),
      ),
      ...Array.from({ length: 40 }, (_, row) =>
        madeEvent(row, 1, {
          ...search,
          reward: 0,
          ...(row < 16 ? { finish: { length: 1 } } : {}),
          ...(row >= 20 && row < 25 ? { status: 'failed', reward: null } : {}),
          ...(row >= 30 && row < 34
            ? { tool_errors: 3, tools: [{ name: 'update', calls: 4, errors: 3 }] }
            : {}),
        }),
      ),
    ]),
  )
  const texts = findings(table).map(
    ({ key, tone, count, query, title, detail }) =>
      `${key} ${tone} ${count} ${query}: ${title}. ${detail}`,
  )
  expect(texts).toEqual([
    'cut warn 16 is:cut: 16 were cut off. A call ended with finish_reason length in 20 % of the rollouts. Mean reward 0.00.',
    'suspicious bad 3 is:suspicious: 3 passed without a tool call. The reward may be exploitable.',
    'failed bad 5 is:failed: 5 failed. timeout 5.',
    'stuck bad 4 is:stuck: 4 repeat a failing tool call. Mostly update. Mean reward 0.00.',
    'notpassed info 40 is:notpassed: 40 of 80 did not pass. Mean reward 0.00.',
    'rows info 5 -is:signal: 5 rows have no training signal. 0 never pass, 0 always do, 5 have other equal rewards.',
  ])
})

test('rows with one ended attempt are not counted as rows without a training signal', () => {
  const table = new RunTable(
    toRunDocument(manifestOf(3), [madeEvent(0, 0), madeEvent(1, 0), madeEvent(1, 1)]),
  )
  expect(findings(table)).toMatchObject([{ key: 'rows', count: 1 }])
})

test('the detail counts each reason of suspicious passes', () => {
  const table = passes((row) => ({
    ...(row < 5 ? { tool_calls: 0, tools: [] } : {}),
    ...(row > 3 && row < 6 ? { completion_tokens: 10 } : {}),
  }))
  expect(findings(table)[0]).toMatchObject({
    title: '6 suspicious passes',
    detail: '5 without a tool call, 2 with very little text. The reward may be exploitable.',
  })
  const shorts = selectItems(table, parseQuery('is:short -is:notools', table))
  expect([...shorts]).toEqual([5])
})
