import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

import { temporaryFolder } from '../kit/index.ts'
import { expect, it } from 'vitest'

import { root } from '../examples/command.ts'

interface SearchIndex {
  search: (query: string, options: object) => readonly { readonly title: string }[]
}

it('the site builds, and its search finds the words that people look for', async () => {
  const site = await temporaryFolder()
  await mkdir(path.join(root, 'docs/public/api'), { recursive: true })
  const vitepress = path.join(root, 'docs/node_modules/.bin/vitepress')
  await promisify(execFile)(vitepress, ['build', '--outDir', site], {
    cwd: path.join(root, 'docs'),
  })

  const [chunk = ''] = globSync('assets/chunks/@localSearchIndex*.js', { cwd: site })
  const { default: json } = (await import(pathToFileURL(path.join(site, chunk)).href)) as {
    default: string
  }
  // A static method, which needs its class.
  const index = searchLibrary().loadJSON(json, {
    fields: ['title', 'titles', 'text'],
    storeFields: ['title', 'titles'],
  })
  const words = ['reward hacking', 'distribution', 'LLM judge', 'GRPO', 'pass@k', 'sandbox']
  const unknown = words.filter((word) => index.search(word, { combineWith: 'AND' }).length === 0)
  expect(unknown).toEqual([])
  expect(index.search('rewardless hackathon', { combineWith: 'AND' })).toEqual([])

  const diagrams = globSync('docs/{get-started,training,operating}/*.md', { cwd: root })
  const drawn = await Promise.all(diagrams.map((page) => readFile(path.join(root, page), 'utf8')))
  expect(drawn.filter((text) => text.includes('```mermaid')).length).toBeGreaterThanOrEqual(2)
}, 900_000)

/** MiniSearch, which VitePress brings along. */
function searchLibrary(): { loadJSON: (json: string, options: object) => SearchIndex } {
  const ofSite = createRequire(path.join(root, 'docs/package.json'))
  const ofVitePress = createRequire(ofSite.resolve('vitepress/package.json'))
  const library = ofVitePress('minisearch') as { default?: unknown }
  return (library.default ?? library) as ReturnType<typeof searchLibrary>
}
