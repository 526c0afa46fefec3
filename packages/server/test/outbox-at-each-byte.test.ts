import { expect, it } from 'vitest'

import { endEverywhere } from './end-everywhere.ts'

it('contradicts no delivered result, wherever in its files a process or its machine ended', async () => {
  expect(await endEverywhere(211)).toBeGreaterThan(300)
})
