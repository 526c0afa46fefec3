import { passAtK } from '@osmosis/eval/analysis'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

/** The share of all choices of k attempts in which one of the first `passed` is chosen. */
function byEnumeration(attempts: number, passed: number, k: number): number {
  let choices = 0
  let passing = 0
  for (let chosen = 0; chosen < 2 ** attempts; chosen++) {
    const indices = Array.from({ length: attempts }, (_, index) => index).filter(
      (index) => (chosen >> index) % 2 === 1,
    )
    if (indices.length !== k) continue
    choices += 1
    if (indices.some((index) => index < passed)) passing += 1
  }
  return passing / choices
}

it('equals the share of all choices of k attempts that hold a passed one', () => {
  const cases = fc
    .integer({ min: 1, max: 8 })
    .chain((attempts) =>
      fc.tuple(
        fc.constant(attempts),
        fc.integer({ min: 0, max: attempts }),
        fc.integer({ min: 1, max: attempts }),
      ),
    )
  fc.assert(
    fc.property(cases, ([attempts, passed, k]) => {
      expect(passAtK(attempts, passed, k)).toBeCloseTo(byEnumeration(attempts, passed, k), 10)
    }),
  )
})

it('stays exact where binomials overflow', () => {
  expect(passAtK(10_000, 1, 5000)).toBeCloseTo(0.5, 10)
})

it.each([
  [4, 2, 0],
  [4, 2, 5],
  [4, 5, 1],
  [4, -1, 1],
])('is undefined for %i attempts, %i passed and k = %i', (attempts, passed, k) => {
  expect(() => passAtK(attempts, passed, k)).toThrow(RangeError)
})
