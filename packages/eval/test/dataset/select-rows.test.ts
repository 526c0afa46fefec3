import { selectRows } from '@osmosis/eval'
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

it('refuses to select from an empty dataset', async () => {
  expect(await osmosisErrorOf(() => selectRows([]))).toEqual({
    code: 'invalid_dataset',
    message: 'The dataset selected no rows: it is empty.',
  })
})
