import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

import { afterAll, beforeAll, expect, it } from 'vitest'

import { noteText, published } from '../../scripts/install-notes.ts'
import { root } from '../examples/command.ts'

interface SearchIndex {
  search: (query: string, options: object) => readonly { readonly title: string }[]
}

/** The folder of the built site. */
let site: string

beforeAll(async () => {
  site = await mkdtemp(path.join(tmpdir(), 'osmosis-site-'))
  await mkdir(path.join(root, 'docs/public/api'), { recursive: true })
  const vitepress = path.join(root, 'docs/node_modules/.bin/vitepress')
  await promisify(execFile)(vitepress, ['build', '--outDir', site], {
    cwd: path.join(root, 'docs'),
  })
}, 900_000)

afterAll(() => rm(site, { recursive: true, force: true }))

it('the search of the site finds the words that people look for', async () => {
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

  const guide = await readFile(path.join(site, 'frameworks/strands.html'), 'utf8')
  expect(guide.includes(noteText)).toBe(!published)

  const diagrams = globSync('docs/{get-started,training,operating}/*.md', { cwd: root })
  const drawn = await Promise.all(diagrams.map((page) => readFile(path.join(root, page), 'utf8')))
  expect(drawn.filter((text) => text.includes('```mermaid')).length).toBeGreaterThanOrEqual(2)
})

it('coding agents find each page as Markdown, by llms.txt and by the links of the others', async () => {
  const address = 'https://osmosis-ai.github.io/osmosis-sdk-typescript/'
  const written = globSync('**/*.md', { cwd: site })
  const read = async (file: string): Promise<string> => readFile(path.join(site, file), 'utf8')
  const linksIn = (text: string): string[] =>
    Array.from(text.matchAll(/\]\(([^()\s#]+\.md)(?:#[^)]*)?\)/g), ([, link = '']) => link)
  const listed = linksIn(await read('llms.txt'))
  expect(listed.toSorted()).toEqual(written.map((file) => `${address}${file}`).toSorted())
  const pages = globSync('docs/**/*.md', { cwd: root, exclude: ['**/node_modules/**'] })
  // The first page of the site has only links.
  expect(written.length).toBe(pages.length - 1)
  const texts = await Promise.all([...written, 'llms-full.txt'].map(read))
  const dead = texts
    .flatMap(linksIn)
    .filter((link) => !link.startsWith('https://github.com/'))
    .filter((link) => !written.includes(link.replace(address, '')))
  expect(dead).toEqual([])
})

/** MiniSearch, which VitePress brings along. */
function searchLibrary(): { loadJSON: (json: string, options: object) => SearchIndex } {
  const ofSite = createRequire(path.join(root, 'docs/package.json'))
  const ofVitePress = createRequire(ofSite.resolve('vitepress/package.json'))
  const library = ofVitePress('minisearch') as { default?: unknown }
  return (library.default ?? library) as ReturnType<typeof searchLibrary>
}
