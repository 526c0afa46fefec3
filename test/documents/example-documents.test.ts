// @module-tag nightly
import { expect, it } from 'vitest'

import { pages } from './pages.ts'
import { readPage } from './read-page.ts'

it.each(pages.filter(({ workspace }) => workspace === 'this repository'))(
  'what $document shows runs in $workspace, from top to bottom',
  async (page) => {
    expect(await readPage(page)).toEqual([])
  },
  600_000,
)
