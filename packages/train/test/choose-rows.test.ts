import { expect, it } from 'vitest'

import { chooseRows } from '../src/loop/choose-rows.ts'

it('draws all rows equally often, and none twice in a step that ends an epoch', () => {
  for (const [rowCount, rowsPerStep] of [
    [12, 8],
    [5, 4],
    [7, 7],
    [9, 2],
  ] as const) {
    const counts = new Map<number, number>()
    for (let step = 1; step <= rowCount; step += 1) {
      const rows = chooseRows({ rowCount, rowsPerStep, seed: 3, step })
      expect(new Set(rows).size).toBe(rowsPerStep)
      for (const row of rows) counts.set(row, (counts.get(row) ?? 0) + 1)
    }
    const expected = Array.from({ length: rowCount }, (_, row) => [row, rowsPerStep])
    expect([...counts].toSorted(([a], [b]) => a - b)).toEqual(expected)
  }
})

it('draws the same rows in another process', () => {
  const choice = { rowCount: 12, rowsPerStep: 8, seed: 3 }
  const inOrder = [1, 2, 3, 4].map((step) => chooseRows({ ...choice, step }))
  chooseRows({ ...choice, seed: 4, step: 1 })
  expect(chooseRows({ ...choice, step: 4 })).toEqual(inOrder[3])
})
