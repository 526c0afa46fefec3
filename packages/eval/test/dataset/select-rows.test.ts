import { selectRows, type RowSelection } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { datasetRows } from '../evaluations.ts'
import { osmosisErrorOf } from '../thrown-by.ts'

const tenRows = datasetRows(10)
const all = tenRows.map(({ sourceRowIndex }) => sourceRowIndex)

it.each([
  ['everything by default', {}, all],
  ['the first rows up to a limit', { limit: 3 }, [0, 1, 2]],
  ['everything with a limit beyond the end', { limit: 99 }, all],
  ['everything with a limit of null', { limit: null }, all],
  ['everything with a limit of 0', { limit: 0 }, all],
  ['everything with a negative limit', { limit: -2 }, all],
  ['ranges with both ends, and single rows', { rows: '0-2,7' }, [0, 1, 2, 7]],
  ['rows in file order, each once', { rows: '7,3-4,4,7-7' }, [3, 4, 7]],
  ['named rows whatever the limit', { rows: '4-5', limit: 1 }, [4, 5]],
])('selects %s', (_name, selection, expected) => {
  const selected = selectRows(tenRows, selection)
  expect(selected.map(({ sourceRowIndex }) => sourceRowIndex)).toEqual(expected)
})

it.each([
  ['5-3', `--rows range '5-3' is inverted; write it as 3-5`],
  ['1,10', '--rows 10 is out of range; valid rows are 0-9'],
  ['8-12,99999999999', '--rows 10-12,99999999999 is out of range; valid rows are 0-9'],
  ['', `--rows must be a list of rows and ranges like 0-4,7, got ''`],
  ['1,', `--rows must be a list of rows and ranges like 0-4,7, got '1,'`],
  ['-1', `--rows must be a list of rows and ranges like 0-4,7, got '-1'`],
  ['1 - 2', `--rows must be a list of rows and ranges like 0-4,7, got '1 - 2'`],
])('refuses rows "%s"', async (rows, message) => {
  expect(await osmosisErrorOf(() => selectRows(tenRows, { rows }))).toEqual({
    code: 'invalid_config',
    message,
  })
})

/** Every third row is of a split, and every second has a tag. */
const tagged = tenRows.map((row, at) => ({
  ...row,
  metadata: at % 3 === 0 ? { split: 'train', level: at } : null,
  otherColumns: at % 2 === 0 ? { tag: 'even' } : {},
}))

function placesOf(selection: RowSelection): number[] {
  return selectRows(tagged, selection).map(({ sourceRowIndex }) => sourceRowIndex)
}

it.each([
  [['split=train'], [0, 3, 6, 9]],
  [
    ['split=train', 'tag=even'],
    [0, 6],
  ],
  [
    ['level=3', 'level=9'],
    [3, 9],
  ],
])('selects the rows where %s', (where, expected) => {
  expect(placesOf({ where })).toEqual(expected)
})

it('draws the same rows for the same seed, in file order, and others for another', () => {
  const drawn = placesOf({ sample: 4, seed: 7 })
  expect(drawn).toHaveLength(4)
  expect(drawn.toSorted((a, b) => a - b)).toEqual(drawn)
  expect(placesOf({ sample: 4, seed: 7 })).toEqual(drawn)
  expect(placesOf({ sample: 4, seed: 8 })).not.toEqual(drawn)
  expect(placesOf({ sample: 99 })).toEqual(all)
  // A larger sample has the rows of a smaller one.
  expect(placesOf({ sample: 6, seed: 7 })).toEqual(expect.arrayContaining(drawn))
})

it('shuffles by the seed before it cuts', () => {
  const order = placesOf({ shuffle: true, seed: 1 })
  expect(order).not.toEqual(all)
  expect(order.toSorted((a, b) => a - b)).toEqual(all)
  expect(placesOf({ shuffle: true, seed: 1, offset: 2, limit: 3 })).toEqual(order.slice(2, 5))
})

it('refuses where that no row has, or that is not a pair', async () => {
  expect(await osmosisErrorOf(() => selectRows(tagged, { where: ['split=test'] }))).toEqual({
    code: 'invalid_dataset',
    message: 'The dataset selected no rows: none of its 10 rows has split=test.',
  })
  expect(await osmosisErrorOf(() => selectRows(tagged, { where: ['split'] }))).toEqual({
    code: 'invalid_config',
    message: "--where must be <key>=<value>, got 'split'",
  })
})

it('refuses to select from an empty dataset', async () => {
  expect(await osmosisErrorOf(() => selectRows([]))).toEqual({
    code: 'invalid_dataset',
    message: 'The dataset selected no rows: it is empty.',
  })
})
