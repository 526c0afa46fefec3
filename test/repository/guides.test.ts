import { existsSync, globSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')

const documents = globSync(
  ['*.md', 'docs/**/*.md', 'packages/*/README.md', 'examples/**/README.md', '.github/*.md'],
  { cwd: root, exclude: ['**/node_modules/**'] },
)

describe.each(documents)('%s', (document) => {
  const text = readFileSync(path.join(root, document), 'utf8')

  // Package managers with a strict node_modules resolve nothing that is not installed by name.
  it('installs what its programs import, before it imports it', () => {
    const missing = [...text.matchAll(/^\+?(?:import|\}) .*?from '([^.'][^']*)'/gm)]
      .filter(([, specifier = '']) => !isBuiltin(specifier))
      .map(({ 1: specifier = '', index }) => ({ name: packageOf(specifier), index }))
      .filter(({ name, index }) => !installed(text.slice(0, index)).has(name))
      .map(({ name }) => name)
    expect(missing).toEqual([])
  })

  it('links to files that are there, and to packages of this repository as files', () => {
    const links = [...text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)].map(([, link = '']) => link)
    const bad = links.filter((link) =>
      /^https?:/.test(link)
        ? /npmjs\.com\/package\/@osmosis|osmosis-sdk-typescript\/(?:blob|tree)/.test(link)
        : !existsSync(path.join(root, path.dirname(document), link)),
    )
    expect(bad).toEqual([])
  })
})

/** What the `npm install` lines of a text install. */
function installed(text: string): Set<string> {
  const lines = text.matchAll(/^npm install (.*)$/gm)
  return new Set([...lines].flatMap(([, words = '']) => words.split(' ')))
}

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}
