import { expect } from 'vitest'

import { toPass, type PassExpectation } from './to-pass.ts'

export type { PassExpectation } from './to-pass.ts'

declare module 'vitest' {
  // Vitest declares it with these parameters.
  interface Matchers<R, T> {
    /**
     * Asserts that an evaluation has ended and that at least a fraction of its rollouts passed.
     *
     * @throws TypeError when the value is neither what `runEvaluation` nor what `openRun` resolves with;
     * RangeError for a `rate` that is not a fraction
     */
    toPass(expected: PassExpectation): R
  }
}

expect.extend({
  toPass(received: unknown, expected: PassExpectation) {
    return toPass(received, expected, this.isNot)
  },
})
