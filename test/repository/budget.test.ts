import { expect, it } from 'vitest'

import { measureBudget, readBudget } from '../../scripts/budget.ts'

const [budget, measured] = [readBudget(), measureBudget()]

it('the sources, their imports and the flags of each command stay within the budget', () => {
  const over = Object.entries(measured).filter(([name, value]) => value > (budget[name] ?? 0))
  expect(over, 'remove as much as the change adds: CONTRIBUTING.md, "Size"').toEqual([])
})

it('the budget falls with the sources', () => {
  const loose = Object.entries(budget).filter(
    ([name, value]) => (measured[name] ?? 0) < value * 0.99,
  )
  expect(loose, 'run npx -y pnpm@12 run budget --update').toEqual([])
})
