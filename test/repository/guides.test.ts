import { existsSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { pageAt } from '../../docs/.vitepress/page-links.ts'
import { documents, importsOf, packageOf, read, root } from './documents.ts'

describe.each(documents)('%s', (document) => {
  const text = read(document)

  // Package managers with a strict node_modules resolve nothing that is not installed by name.
  it('installs what its programs import, before it imports it', () => {
    const missing = importsOf(text)
      .filter(({ specifier }) => !isBuiltin(specifier))
      .map(({ specifier, index }) => ({ name: packageOf(specifier), index }))
      .filter(({ name, index }) => !installed(text.slice(0, index)).has(name))
      .map(({ name }) => name)
    expect(missing).toEqual([])
  })

  it('links to files and headings that are there, and to packages of this repository as files', () => {
    const bad = [...text.matchAll(/\]\(([^)#\s]*)(#[^)\s]*)?[^)]*\)/g)].filter(
      ([, link = '', anchor]) => {
        const page = pageAt(link)
        if (page !== undefined) return !leadsSomewhere(path.join('docs', page), link, anchor)
        return /^https?:/.test(link)
          ? /npmjs\.com\/package\/@osmosis|osmosis-sdk-typescript\/(?:blob|tree)/.test(link)
          : !leadsSomewhere(path.join(path.dirname(document), link), link, anchor)
      },
    )
    expect(bad.map(([link]) => link)).toEqual([])
  })

  function leadsSomewhere(file: string, link: string, anchor: string | undefined): boolean {
    if (!existsSync(path.join(root, file))) return false
    if (anchor === undefined) return true
    return anchorsOf(link === '' ? text : read(file)).includes(anchor)
  }
})

it.each([
  ['AGENTS.md', /`((?:packages|test|scripts|examples)\/[^`<*\s]*)`/g, ''],
  // Its paths begin with the name of a package, as it says, or else in the root.
  ['docs/architecture.md', /`([a-z][\w-]*\/[^`<*{\s]*)`/g, 'packages'],
])('%s names files that are there', (document, pattern, folder) => {
  const named = [...read(document).matchAll(pattern)].map(([, file = '']) => file)
  const missing = named.filter(
    (file) => ![root, path.join(root, folder)].some((from) => existsSync(path.join(from, file))),
  )
  expect(named.length).toBeGreaterThan(30)
  expect(missing).toEqual([])
})

/** What the `npm install` lines of a text install. */
function installed(text: string): Set<string> {
  const lines = text.matchAll(/^npm install (.*)$/gm)
  return new Set(
    [...lines].flatMap(([, words = '']) =>
      // Without the version that is asked for.
      words.split(' ').map((word) => word.replace(/(?<=.)@.*$/, '')),
    ),
  )
}

/** The headings of a document, in the form that links to them have. */
function anchorsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(
    ([, heading = '']) =>
      `#${heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-')}`,
  )
}
