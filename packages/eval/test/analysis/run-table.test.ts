import { appendEvents, type RunNote, RunTable, toRunDocument } from '@osmosis/eval/analysis'
import { expect, test } from 'vitest'

import { eventOf, eventsOf, manifestOf } from './runs.ts'

function tableOf(rewards: readonly (readonly (number | null)[])[], threshold = 1): RunTable {
  return new RunTable(toRunDocument(manifestOf(rewards.length, { threshold }), eventsOf(rewards)))
}

test('rows are told apart by what their rewards teach, by exact equality', () => {
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
    'signal',
    'flat',
    'always',
    'never',
    'always',
    'signal',
  ])
  expect(table.kinds()).toEqual({ never: 3, signal: 3, flat: 1, always: 2 })
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

test('the last event of an item counts, and events of the other model are passed over', () => {
  const table = new RunTable(
    toRunDocument(manifestOf(2), [
      eventOf(0, 0, { status: 'failed' }),
      eventOf(0, 0, { reward: 0.5 }),
      eventOf(1, 0, { model_tag: 'baseline', reward: 0 }),
    ]),
  )
  expect(table.size).toBe(1)
  expect(table.value(0)).toBe(0.5)
  expect(table.append([eventOf(0, 0, { reward: 1 }), eventOf(0, 1, { reward: 0 })])).toEqual([0, 1])
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
