import { toRunRow } from '@osmosis/eval'
import { expect, test } from 'vitest'

const row = {
  sourceRowIndex: 3,
  initialMessages: [{ role: 'user', content: 'How many?' }],
  label: '8',
  metadata: {},
  otherColumns: {},
} as const

test('rows can be grouped by short texts, whole numbers and booleans of their metadata and columns', () => {
  const { facets } = toRunRow({
    ...row,
    otherColumns: { id: 'a-1', level: 2, source: 'web' },
    metadata: { hard: true, seconds: 1.5, steps: ['add'], story: 'long '.repeat(20), empty: '' },
  })
  expect(facets).toEqual({ level: '2', source: 'web', hard: 'true' })
})

test('the key of a row is its id, or else a hash of prompt, label and metadata', () => {
  expect(toRunRow({ ...row, otherColumns: { ID: 7 } }).key).toBe('7')
  expect(toRunRow({ ...row, sourceRowIndex: 9 }).key).toBe(toRunRow(row).key)
  expect(toRunRow({ ...row, label: '9' }).key).not.toBe(toRunRow(row).key)
  expect(toRunRow(row)).not.toHaveProperty('facets')
})
