import { expect, test } from 'vitest'

import { expectedTexts, textsOfRollouts } from './concurrent-rollouts.ts'

const count = 20

test(`${count} rollouts of two agents with helpers, in loops, do not mix a single word`, async () => {
  expect(await textsOfRollouts(count)).toEqual(expectedTexts(count))
})
