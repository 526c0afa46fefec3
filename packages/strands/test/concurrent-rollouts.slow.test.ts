import { expect, test } from 'vitest'

import { expectedTexts, textsOfRollouts } from './concurrent-rollouts.ts'
import { isNewestSdk } from './running-sdk.ts'

// Keeping many apart is no matter of the version: the newest runs most.
const count = isNewestSdk ? 200 : 20

test(`${count} rollouts of two agents with helpers, in loops, are kept apart word for word`, async () => {
  expect(await textsOfRollouts(count)).toEqual(expectedTexts(count))
}, 600_000)
