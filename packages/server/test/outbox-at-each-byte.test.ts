import { expect, it } from 'vitest'

import { endEverywhere } from './end-everywhere.ts'

it('contradicts no delivered result, wherever in its files a process or its machine ended', async () => {
  expect(await endEverywhere(211)).toBeGreaterThan(300)
})

it(
  'contradicts no delivered result, wherever in its files a process or its machine ended',
  { tags: 'slow' },
  async () => {
    expect(await endEverywhere(37)).toBeGreaterThan(500)
  },
)
