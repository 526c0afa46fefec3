import { readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { documentFigures } from '../../scripts/docs-figures.ts'
import { notedDocuments, withNote } from '../../scripts/install-notes.ts'

const { readme, packages, docs, nodeVersions } = documentFigures()

it('the documents are short enough to be read', () => {
  expect(readme).toBeLessThanOrEqual(600)
  expect(Object.entries(packages).filter(([, words]) => words > 250)).toEqual([])
  expect(docs.written).toBeLessThanOrEqual(38_000)
})

it('the documents name one version of Node.js', () => {
  expect([...nodeVersions].filter(([version]) => version !== '22.19')).toEqual([])
})

it('documents that install packages say how to while the packages are not on npm', () => {
  const root = path.resolve(import.meta.dirname, '../..')
  const wrong = notedDocuments.filter((document) => {
    const text = readFileSync(path.join(root, document), 'utf8')
    return withNote(document, text) !== text
  })
  expect(wrong, 'run npx -y pnpm@12 run docs:notes').toEqual([])
})
