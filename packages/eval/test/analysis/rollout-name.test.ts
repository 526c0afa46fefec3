import { parseRolloutName, rolloutName } from '@osmosis/eval/analysis'
import { expect, it } from 'vitest'

it('people count attempts from 1, and files from 0', () => {
  expect(rolloutName({ source_row_index: 12, run_index: 0 })).toBe('12.1')
  expect(rolloutName({ source_row_index: 0, run_index: 9 })).toBe('0.10')
  expect(parseRolloutName('12.1')).toEqual({ row: 12, attempt: 0 })
  expect(parseRolloutName('12')).toEqual({ row: 12, attempt: undefined })
  const others = ['12.0', '12.', '.1', '-1', '1.2.3', 'latest', '']
  expect(others.filter((text) => parseRolloutName(text) !== undefined)).toEqual([])
})
