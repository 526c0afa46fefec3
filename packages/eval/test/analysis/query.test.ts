import {
  type ItemEvent,
  parseQuery,
  RunTable,
  selectItems,
  toRunDocument,
} from '@osmosis/eval/analysis'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'

import { madeEvent } from '../../../../test/kit/index.ts'
import { manifestOf } from './runs.ts'

const manifest = manifestOf([
  {
    key: 'first',
    source_row: 0,
    facets: { task: 'Refund', 'price-class': 'very low', error: 'of the row' },
  },
  { key: 'second', source_row: 1, facets: { task: 'cancel' } },
])
const stuck = [{ name: 'update_flight', calls: 4, errors: 3 }]
const table = new RunTable(
  toRunDocument(
    manifest,
    [
      madeEvent(0, 0, {
        reward: 1,
        completion_tokens: 50,
        metrics: { Polite: 1, error: 3, task: 7 },
      }),
      madeEvent(0, 1, {
        reward: 0,
        summary: 'I am sorry.',
        tools: stuck,
        tool_errors: 3,
        tool_calls: 4,
      }),
      madeEvent(1, 0, { reward: 0.5, duration_ms: 9000, calls: 6 }),
      madeEvent(1, 1, { status: 'failed', summary: 'The workflow exceeded its 2 s.' }),
    ],
    [{ source_row_index: 1, run_index: 0, tag: 'Late', text: '', at: '' }],
  ),
)

const select = (line: string, found?: ReadonlySet<number>): number[] => [
  ...selectItems(table, parseQuery(line, table, { found })),
]

test.each([
  ['', [0, 1, 2, 3]],
  ['is:passed', [0]],
  ['is:notpassed', [1, 2, 3]],
  ['is:novalue', [3]],
  ['is:signal', [0, 1]],
  ['is:flat', [2, 3]],
  ['is:stuck', [1]],
  ['has:toolerror', [1]],
  ['is:failed', [3]],
  ['is:noted', [2]],
  ['-is:failed', [0, 1, 2]],
  ['tool:update', [1]],
  ['tool:UPDATE_flight', [1]],
  ['task:refund', [0, 1]],
  ['-task:refund', [2, 3]],
  ['error:timeout', [3]],
  ['tag:late', [2]],
  ['reward<0.5', [1]],
  ['reward<=0.5', [1, 2]],
  ['reward>0', [0, 2]],
  ['reward>=1', [0]],
  ['reward:0.5', [2]],
  ['reward:0-0.5', [1, 2]],
  ['reward=0', [1]],
  ['row:1', [2, 3]],
  ['attempt:1', [0, 2]],
  ['turns>5', [2]],
  ['tools:4', [1]],
  ['errors>=3', [1]],
  ['tokens<100', [0]],
  ['tokens<1,000', [0, 1, 2, 3]],
  ['tokens:50-1,000', [0, 1, 2, 3]],
  ['seconds>5', [2]],
  ['polite:1', [0]],
  ['error>2', [0]],
  ['task>6', [0]],
  ['price-class:"very low"', [0, 1]],
  ['tag:"late"', [2]],
  ['spread>0 is:signal', [0, 1]],
  ['sorry', [1]],
  ['SORRY', [1]],
  ['"am sorry"', [1]],
  ['-sorry', [0, 2, 3]],
  ['-"am sorry" is:signal', [0]],
  ['refund', [0, 1]],
  ['timeout', [3]],
  ['second', [2, 3]],
  ['task:cancel reward>0', [2]],
  ['sort:-tokens tokens<200', [1, 2, 3, 0]],
  ['sort:reward', [1, 2, 0, 3]],
  ['sort:-reward', [0, 2, 1, 3]],
  ['sort:-row', [2, 3, 0, 1]],
])('%s', (line, items) => {
  expect(parseQuery(line, table).problems).toEqual([])
  expect(select(line)).toEqual(items)
})

test('items found in the transcripts match the words, also those that are not in the facts', () => {
  expect(select('refusal', new Set([2]))).toEqual([2])
  expect(select('refusal is:failed', new Set([2]))).toEqual([])
  expect(select('-refusal', new Set([2]))).toEqual([0, 1, 2, 3])
  expect(parseQuery('Refusal "no way" -sorry is:stuck', table).words).toEqual(['refusal', 'no way'])
})

test.each([
  ['is:stuk', /Unknown state "is:stuk". Use one of: passed, notpassed,/],
  ['tokens>1,00', /"tokens" needs a number/],
  ['tokens>many', /"tokens" needs a number, such as tokens>5/],
  ['tokens>', /"tokens" needs a number/],
  ['reward:a-b', /"reward" needs a number/],
  ['tool:fly', /No tool is called "fly"; there are: update_flight/],
  ['error:http', /No rollout failed with "http"; there are: timeout/],
  ['task:fly', /No row has the task "fly"; there are: Refund, cancel/],
  [
    'tsk:refund',
    /Unknown key "tsk". Use one of: is, has, tool, error, version, purpose, tag, task, .*; or put text in quotes/,
  ],
  [
    'price-class>3',
    /"price-class" is not a number of a rollout. Use one of: reward, row, .*Polite/,
  ],
  ['sort:luck', /Cannot sort by "luck". Sort by one of: reward, row/],
])('%s is not understood, says so, and does not filter', (line, problem) => {
  const query = parseQuery(line, table)
  expect(query.problems).toEqual([expect.stringMatching(problem)])
  expect(select(line)).toEqual([0, 1, 2, 3])
})

test('a number with a minus is a word, as it stands', () => {
  expect(parseQuery('-0.5 -3', table)).toMatchObject({ words: ['-0.5', '-3'], problems: [] })
})

test('the whole name of a tool is that tool alone, although others begin with it', () => {
  const uses = (...names: string[]): ItemEvent['tools'] =>
    names.map((name) => ({ name, calls: 1, errors: 0 }))
  const tools = new RunTable(
    toRunDocument(manifest, [
      madeEvent(0, 0, { tools: uses('search') }),
      madeEvent(0, 1, { tools: uses('search_web') }),
    ]),
  )
  const using = (line: string): number[] => [...selectItems(tools, parseQuery(line, tools))]
  expect([using('tool:search'), using('tool:sear')]).toEqual([[0], [0, 1]])
})

test('whatever is typed filters, or says what is not understood', () => {
  const piece = fc.constantFrom(
    'is:',
    'sort:-',
    '-',
    '"',
    ':',
    '<',
    'tokens',
    'task',
    ' ',
    '0.5',
    '..',
  )
  const line = fc.oneof(
    fc.string(),
    fc.array(piece).map((pieces) => pieces.join('')),
  )
  fc.assert(
    fc.property(line, (text) => {
      const query = parseQuery(text, table)
      const items = [...selectItems(table, query)]
      expect(new Set(items).size).toBe(items.length)
      expect(items.every((item) => item >= 0 && item < table.size)).toBe(true)
    }),
  )
})
