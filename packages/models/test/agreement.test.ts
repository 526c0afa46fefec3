import { agreementOf } from '@osmosis/models'
import { expect, it } from 'vitest'

const verdicts = (cells: readonly (readonly [count: number, judge: boolean, people: boolean])[]) =>
  cells.flatMap(([count, judge, people]) =>
    Array.from({ length: count }, () => ({ judge, people })),
  )

it("is accuracy and Cohen's kappa", () => {
  // The example of most textbooks: 20 and 15 agreements of 50, 0.5 of them by chance.
  const found = agreementOf(
    verdicts([
      [20, true, true],
      [5, true, false],
      [10, false, true],
      [15, false, false],
    ]),
  )
  expect(found).toMatchObject({
    answers: 50,
    accuracy: 0.7,
    bothPass: 20,
    bothFail: 15,
    onlyJudgePasses: 5,
    onlyPeoplePass: 10,
  })
  expect(found.kappa).toBeCloseTo(0.4, 12)
})

it.each([
  [
    'all',
    [
      [3, true, true],
      [2, false, false],
    ],
    1,
  ],
  [
    'none',
    [
      [2, true, false],
      [2, false, true],
    ],
    -1,
  ],
  ['all, of one kind', [[3, true, true]], null],
] as const)('is known when they agree on %s', (_how, cells, kappa) => {
  expect(agreementOf(verdicts(cells)).kappa).toBe(kappa)
})

it('needs something to compare', () => {
  expect(() => agreementOf([])).toThrow(RangeError)
})
