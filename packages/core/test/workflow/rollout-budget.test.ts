import { RolloutBudget } from '@osmosis/core/policy'
import { expect, it } from 'vitest'

it('counts the cost that the policy reports, and ends the rollout once', () => {
  const reasons: string[] = []
  const budget = new RolloutBudget({ costUsd: 0.2 }, ({ message }) => void reasons.push(message))
  const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10, cost: 0.1 }
  for (let call = 0; call < 2; call += 1) {
    budget.begin()
    budget.spend(usage)
  }
  expect(budget.reached).toBeUndefined()
  for (let call = 0; call < 2; call += 1) {
    expect(() => budget.begin()).toThrow('The rollout reached its limit of 0.2 US dollars.')
  }
  expect(budget.reached).toBe('costUsd')
  expect(reasons).toHaveLength(1)
})
