import { expect, it } from 'vitest'

import { commandLines } from '../repository/command-line.ts'
import { blocksOf, documents } from '../repository/documents.ts'
import { pages, reasonNotToRun } from './pages.ts'
import { readPage } from './read-page.ts'

it.each(pages.filter(({ workspace }) => workspace !== 'this repository'))(
  'what $document shows runs in $workspace, from top to bottom',
  async (page) => {
    expect(await readPage(page)).toEqual([])
  },
  600_000,
)

it('every command of a document is run, here or where it is said below', () => {
  const elsewhere = [
    'docs/guides/platform.md',
    'docs/operating/serving.md',
    'docs/operating/servers.md',
    'docs/operating/distributed.md',
    // training.test.ts
    ...documents.filter((document) => document.startsWith('docs/training/')),
  ]
  const run = new Set([...pages.map(({ document }) => document), ...elsewhere])
  const left = documents
    .filter((document) => !run.has(document))
    .flatMap((document) => blocksOf(document, 'bash', 'sh').map((block) => block.text))
    .flatMap((text) => commandLines(text))
    .filter((command) => reasonNotToRun(command) === undefined)
  expect(left).toEqual([])
})
