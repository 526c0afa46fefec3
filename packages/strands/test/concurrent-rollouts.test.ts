import { isNewestVersion } from '../../../test/kit/index.ts'
import { describe, expect, test } from 'vitest'

import { expectedTexts, textsOfRollouts } from './concurrent-rollouts.ts'

test('20 rollouts of two agents with helpers, in loops, do not mix a single word', async () => {
  expect(await textsOfRollouts(20)).toEqual(expectedTexts(20))
})

// Separating many rollouts does not depend on the version, so only the newest version runs many.
describe.runIf(isNewestVersion())('many rollouts', { tags: 'slow', timeout: 600_000 }, () => {
  test('200 rollouts do not mix a single word', async () => {
    expect(await textsOfRollouts(200)).toEqual(expectedTexts(200))
  })
})
