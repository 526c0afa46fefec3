// @module-tag slow
import { expect, it } from 'vitest'

import { runThroughCrashes } from './crashing-run.ts'
import { temporaryFolder } from './osmosis.ts'

it('a run that is killed again and again ends with every item once', async () => {
  const kills = [9, 1]
  const figures = await runThroughCrashes(temporaryFolder(), { items: 40, inFlight: 4, kills })
  expect(figures).toEqual({
    kills: 2,
    ended: 40,
    started: expect.any(Number),
    lost: 0,
    twice: 0,
    code: 0,
  })
  expect(figures.started).toBeLessThanOrEqual(40 + kills.length * 4)
})
