import type { Mutation } from './mutation.ts'

const rules = { tests: ['packages/core/test/scores/score-rules.test.ts'] }
const numbers = { file: 'packages/core/src/scores/numeric.ts', ...rules }
const scaleWords = {
  file: 'packages/core/src/scores/number/scale-words.ts',
  tests: [...rules.tests, 'packages/core/test/scores/scale-words.test.ts'],
}
const lastJson = { file: 'packages/core/src/scores/last-json.ts', ...rules }
const unitTests = { file: 'packages/core/src/scores/unit-tests.ts', ...rules }

/** The rules of the ready-made scores, each broken in one line. */
export const scoreMutations: readonly Mutation[] = [
  {
    name: 'rewards: 0.5 is 50 where neither has a percent sign',
    from: 'said.isPercent === expected.isPercent ? [said]',
    to: 'said.isPercent && expected.isPercent ? [said]',
    ...numbers,
  },
  {
    name: 'rewards: 0.5% is 50% where both have a percent sign',
    from: 'const readings = said.isPercent === expected.isPercent ? [said] :',
    to: 'const readings = !said.isPercent && !expected.isPercent ? [said] :',
    ...numbers,
  },
  {
    name: 'rewards: the tolerance is a share of the answer',
    from: 'const size = absolute(expected.above) * said.below',
    to: 'const size = absolute(said.above) * expected.below',
    ...numbers,
  },
  {
    name: 'rewards: the tolerance and the share both have to be met',
    from: 'isAtMost(tolerance, below) || isAtMost(relative, size)',
    to: 'isAtMost(tolerance, below) && isAtMost(relative, size)',
    ...numbers,
  },
  {
    name: 'rewards: a number at the tolerance is too far away',
    from: 'difference * share.below <= share.above * of',
    to: 'difference * share.below < share.above * of || difference === 0n',
    ...numbers,
  },
  {
    name: 'rewards: doubles are equal at a millionth',
    from: 'below: 2n ** 50n }',
    to: 'below: 10n ** 6n }',
    ...numbers,
  },
  {
    name: 'rewards: doubles are equal at a tenth of a billionth',
    from: 'below: 2n ** 50n }',
    to: 'below: 2n ** 46n }',
    ...numbers,
  },
  {
    name: 'rewards: whole numbers are rounded',
    from: 'return !areWhole && isAtMost(rounding, size)',
    to: 'return (areWhole || !areWhole) && isAtMost(rounding, size)',
    ...numbers,
  },
  {
    name: 'rewards: a billion is a million millions',
    from: '    10n ** 9n,',
    to: '    10n ** 12n,',
    ...scaleWords,
  },
  {
    name: 'rewards: a trillion is a million million millions',
    from: '[10n ** 12n, ',
    to: '[10n ** 18n, ',
    ...scaleWords,
  },
  {
    name: 'rewards: a word that scales by nobody knows what is a unit',
    from: '(factor !== undefined || isUnclear(small))',
    to: 'factor !== undefined',
    ...scaleWords,
  },
  {
    name: 'rewards: the first of two blocks of JSON is the answer',
    from: 'const own = fences.findLast(',
    to: 'const own = fences.find(',
    ...lastJson,
  },
  {
    name: 'rewards: the first of two values of JSON is the answer',
    from: 'of blocks(text).toReversed()',
    to: 'of blocks(text)',
    ...lastJson,
  },
  {
    name: 'rewards: a report is read of tests that were ended at their time limit',
    from: 'if (result.timedOut) return 0',
    to: 'if (result.timedOut && junit === undefined) return 0',
    ...unitTests,
  },
  {
    name: 'rewards: tests with the code 0 at their time limit have passed',
    from: 'if (result.timedOut) return 0',
    to: 'if (result.timedOut && result.exitCode !== 0) return 0',
    ...unitTests,
  },
  {
    name: 'rewards: a command that failed has passed all of its tests',
    from: 'return share === 1 && result.exitCode !== 0 ? 0 : share',
    to: 'return share',
    ...unitTests,
  },
  {
    name: 'rewards: a command that was killed ended well',
    from: 'return result.exitCode === 0 ? 1 : 0',
    to: 'return (result.exitCode ?? 0) === 0 ? 1 : 0',
    ...unitTests,
  },
  {
    name: 'rewards: a command that was ended at its time limit is not said to be',
    file: 'packages/core/src/sandbox/local-sandbox.ts',
    from: '      timedOut = true\n',
    to: '',
    ...rules,
  },
]
