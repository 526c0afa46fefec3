import {
  appendEvents,
  counterpartOf,
  findings,
  type ItemEvent,
  parseQuery,
  type RunNote,
  RunTable,
  runStatistics,
  selectItems,
  toRunDocument,
} from '@osmosis/eval/analysis'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'

import { madeEvent, runs } from '../../../../test/kit/index.ts'
import { eventsOf, manifestOf } from './runs.ts'

function tableOf(rewards: readonly (readonly (number | null)[])[], threshold = 1): RunTable {
  return new RunTable(toRunDocument(manifestOf(rewards.length, { threshold }), eventsOf(rewards)))
}

test('the kind of a row follows from the equality of its rewards, but for rounding', () => {
  const table = tableOf(
    [
      [0, 0, 0],
      [-1, -1, -1],
      [0, 1, 1],
      [0.3, 0.1 + 0.2, 0.3],
      [0.5, 0.5, 0.5],
      [1, 1, 1],
      [null, null, null],
      [1, null, 1],
      [0, null, 1],
    ],
    1,
  )
  expect(table.groups.map(({ kind }) => kind)).toEqual([
    'never',
    'never',
    'signal',
    'flat',
    'flat',
    'always',
    'never',
    'flat',
    'signal',
  ])
  expect(table.kinds()).toEqual({ never: 3, signal: 2, flat: 3, always: 1 })
})

test('a document survives JSON, and is continued after it', () => {
  const rewards = [
    [0, 1, 1],
    [1, null, 1],
  ]
  const events = eventsOf(rewards)
  const manifest = manifestOf([
    { key: 'a', source_row: 0, facets: { task: 'refund' } },
    { key: 'b', source_row: 1 },
    { key: 'c', source_row: 2, facets: { task: 'cancel', __proto__x: 'y' } },
  ])
  const started = toRunDocument(manifest, events.slice(0, 2))
  const received = JSON.parse(JSON.stringify(started)) as typeof started
  expect(received).toEqual(started)
  expect(appendEvents(received, events.slice(2))).toEqual([2, 3, 4, 5])
  expect(received).toEqual(toRunDocument(manifest, events))
})

test('the last event of an item counts', () => {
  const table = new RunTable(
    toRunDocument(manifestOf(2), [
      madeEvent(0, 0, { status: 'failed' }),
      madeEvent(0, 0, { reward: 0.5 }),
    ]),
  )
  expect(table.size).toBe(1)
  expect(table.value(0)).toBe(0.5)
  expect(table.append([madeEvent(0, 0, { reward: 1 }), madeEvent(0, 1, { reward: 0 })])).toEqual([
    0, 1,
  ])
  expect(table.groups).toMatchObject([{ row: 0, items: [0, 1], passed: 1, kind: 'signal' }])
})

test('notes: the last one of an item counts, and an empty one removes it', () => {
  const note = (attempt: number, tag: string | null, text = ''): RunNote => ({
    source_row_index: 0,
    run_index: attempt,
    tag,
    text,
    at: '2026-11-20T10:00:00.000Z',
  })
  const table = new RunTable(
    toRunDocument(manifestOf(1), eventsOf([[1, 1, 1]]), [
      note(0, 'loop'),
      note(0, 'skipped check', 'never looked'),
      note(1, 'loop'),
      note(1, null),
      note(7, 'of an item that has not ended'),
    ]),
  )
  expect(table.note(0)).toMatchObject({ tag: 'skipped check', text: 'never looked' })
  expect(table.note(1)).toBeUndefined()
  table.addNote(note(2, null, 'only words'))
  expect(table.note(2)?.text).toBe('only words')
  expect(table.tags()).toEqual(['skipped check'])
})

const arbitraryEvent: fc.Arbitrary<ItemEvent> = fc
  .record({
    row: fc.integer({ min: 0, max: 9 }),
    attempt: fc.integer({ min: 0, max: 3 }),
    status: fc.constantFrom('success', 'failed', 'skipped'),
    reward: fc.constantFrom(null, 0, 0.5, 1),
    score: fc.constantFrom(null, 0, 1),
    tokens: fc.option(fc.integer({ min: 0, max: 900 })),
    errors: fc.integer({ min: 0, max: 4 }),
    summary: fc.constantFrom('', 'Done.', 'Sorry.'),
  })
  .map(({ row, attempt, status, reward, score, tokens, errors, summary }) =>
    madeEvent(row, attempt, {
      status,
      reward: status === 'success' ? reward : null,
      ...(score === null ? {} : { scores: { exact: score }, metrics: { check: score } }),
      completion_tokens: tokens,
      tool_errors: errors,
      tools: errors === 0 ? [] : [{ name: `tool-${errors}`, calls: 5, errors }],
      summary,
    }),
  )

test('a table to which events were appended is the table of all events', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(arbitraryEvent, { maxLength: 20 }), { maxLength: 5 }),
      (batches) => {
        const manifest = manifestOf(10)
        const grown = new RunTable(toRunDocument(manifest, []))
        for (const batch of batches) {
          grown.append(batch)
          // What was derived before must not be what is answered after.
          selectItems(grown, parseQuery('done sort:-tokens', grown))
        }
        const whole = new RunTable(toRunDocument(manifest, batches.flat()))
        expect(grown.document).toEqual(whole.document)
        expect(grown.groups).toEqual(whole.groups)
        expect(findings(grown)).toEqual(findings(whole))
        expect(runStatistics(grown)).toEqual(runStatistics(whole))
        for (const line of ['', 'done', 'is:signal sort:-reward', '-is:toolerror sort:tokens']) {
          const [one, other] = [grown, whole].map((run) => selectItems(run, parseQuery(line, run)))
          expect(one).toEqual(other)
        }
      },
    ),
    { numRuns: runs(60) },
  )
})

test('a run that has scores and no rewards is about the first score, until a reward comes', () => {
  const table = new RunTable(
    toRunDocument(manifestOf(2), [
      madeEvent(0, 0, { reward: null, scores: { exact: 1, style: 0 } }),
      madeEvent(0, 1, { reward: null, scores: { exact: 0, style: 0 } }),
    ]),
  )
  expect(table.measure).toBe('exact')
  expect(table.kinds()).toMatchObject({ signal: 1 })
  expect(new RunTable(table.document, { measure: 'style' }).kinds()).toMatchObject({ never: 1 })
  table.append([madeEvent(1, 0, { reward: 1 })])
  expect(table.measure).toBe('reward')
  expect(table.groups.map(({ kind, graded }) => [kind, graded])).toEqual([
    ['never', 0],
    ['always', 1],
  ])
})

test('items in the order of rows, whichever ended first', () => {
  const table = new RunTable(
    toRunDocument(manifestOf(3), [
      madeEvent(2, 1),
      madeEvent(0, 1),
      madeEvent(2, 0),
      madeEvent(0, 0),
    ]),
  )
  expect([...selectItems(table, parseQuery('', table))]).toEqual([3, 1, 2, 0])
  expect(table.find(2, 0)).toBe(2)
  expect(table.find(1, 0)).toBeUndefined()
  expect(table.findGroup(1)).toBeUndefined()
  expect(table.findGroup(2)).toBe(table.group(0))
})

test('what was taken out of training has not passed, whatever its reward', () => {
  const table = new RunTable(
    toRunDocument(manifestOf(1), [madeEvent(0, 0, { status: 'skipped', reward: 1 })]),
  )
  expect([table.passed(0), table.counts(0), table.groups[0]?.passed]).toEqual([false, false, 0])
})

test('names of users may be those of JavaScript', () => {
  const odd = JSON.parse('{"__proto__": 1, "constructor": 0}') as Record<string, number>
  const facets = JSON.parse('{"__proto__": "a", "constructor": "b"}') as Record<string, string>
  const table = new RunTable(
    toRunDocument(manifestOf([{ key: 'k', source_row: 0, facets }]), [
      madeEvent(0, 0, {
        metrics: odd,
        finish: {},
        tools: [{ name: '__proto__', calls: 1, errors: 0 }],
      }),
    ]),
  )
  for (const line of ['constructor:b', '__proto__>=1', 'tool:__proto__']) {
    const query = parseQuery(line, table)
    expect(query.problems).toEqual([])
  }
  expect(Object.keys(JSON.parse(JSON.stringify(table.document.columns.metrics)) as object)).toEqual(
    ['__proto__', 'constructor'],
  )
})

test('the counterpart of an attempt ended the other way, as far from it as there is', () => {
  const table = new RunTable(
    toRunDocument(
      manifestOf(2),
      eventsOf([
        [0.2, 1, 0.9, 0],
        [null, 1, 1],
      ]),
    ),
  )
  expect([0, 1, 2, 4].map((item) => counterpartOf(table, item))).toEqual([1, 3, 1, 5])
  expect(counterpartOf(new RunTable(toRunDocument(manifestOf(1), [madeEvent(0, 0)])), 0)).toBeNull()
})
