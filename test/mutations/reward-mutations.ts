import type { Mutation } from './mutation.ts'

const numbers = { tests: ['packages/core/test/scores/numeric.test.ts'] }

/** What is rewarded, and what rewards are read from. */
export const rewardMutations: readonly Mutation[] = [
  {
    name: 'an en dash before a number is no sign',
    file: 'packages/core/src/scores/number/number-grammar.ts',
    from: 'const minus = String.raw`\\-−–`',
    to: 'const minus = String.raw`\\-−`',
    ...numbers,
  },
  {
    name: 'the exponent of a unit is read as a number',
    file: 'packages/core/src/scores/number/number-grammar.ts',
    from: '[\\p{L}\\p{N}.]{1,9})`',
    to: '[\\p{L}.]{1,9})`',
    ...numbers,
  },
  {
    name: 'a part of a number with a decimal comma is read',
    file: 'packages/core/src/scores/number/number-grammar.ts',
    from: "(?![.,'’_:]?\\d|",
    to: "(?![.'’_:]?\\d|",
    ...numbers,
  },
  {
    name: 'the whole of a mixed number is lost',
    file: 'packages/core/src/scores/number/exact-number.ts',
    from: 'BigInt(units) * value.below + value.above',
    to: 'value.above',
    ...numbers,
  },
  {
    name: 'a label with a number in it is taken for one',
    file: 'packages/core/src/scores/numeric.ts',
    from: 'const found = wholeNumber(boxed, notation)',
    to: 'const found = lastNumber(boxed, notation)',
    ...numbers,
  },
  {
    name: 'a number somewhere in a box is the answer',
    file: 'packages/core/src/scores/numeric.ts',
    from: ': wholeNumber(box, options)',
    to: ': lastNumber(box, options)',
    ...numbers,
  },
]
