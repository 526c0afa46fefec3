import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')

it('no grader of a document, an example or a template takes a missing label for a text', () => {
  const places = [
    '*.md',
    'examples/*.ts',
    'packages/create/templates/*.ts',
    'packages/*/test/examples/*.ts',
  ]
  const files = execFileSync('git', ['ls-files', '-z', ...places], { cwd: root }).toString()
  const paying = files.split('\0').filter((file) => {
    const text = file === '' ? '' : readFileSync(path.join(root, file), 'utf8')
    // Every answer includes the empty text.
    return /(?:label|groundTruth)\)?\s*(?:\?\?|\|\|)\s*(['"`])\1|String\([\w.]*(?:label|groundTruth)\)/.test(
      text,
    )
  })
  expect(files.length).toBeGreaterThan(1000)
  expect(paying).toEqual([])
})
