import { expect, test } from 'vitest'

import { expectedTexts, textsOfRollouts } from './concurrent-rollouts.ts'
import { isNewestSdk } from './running-sdk.ts'

// Separating many rollouts does not depend on the version, so only the newest version runs many.
const count = isNewestSdk ? 200 : 20

test(`${count} rollouts of two agents with helpers, in loops, do not mix a single word`, async () => {
  expect(await textsOfRollouts(count)).toEqual(expectedTexts(count))
}, 600_000)
