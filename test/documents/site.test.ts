import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, globSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'

import { launchBrowser, openPage, withBrowser } from '../../packages/viewer/test/browser.ts'
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

it('each link of a page leads to a page of the site, and to a heading where it names one', async () => {
  const pages = new Map(
    await Promise.all(
      globSync('**/*.html', { cwd: site }).map(
        async (file) => [file, await readFile(path.join(site, file), 'utf8')] as const,
      ),
    ),
  )
  const targetOf = (link: string, from: string): string => {
    const place = new URL(link, `http://site/osmosis-sdk-typescript/${from}`).pathname
    const file = place.slice('/osmosis-sdk-typescript/'.length)
    if (file === '' || file.endsWith('/')) return `${file}index.html`
    return path.extname(file) === '' ? `${file}.html` : file
  }
  const dead = [...pages].flatMap(([file, html]) => {
    const links = Array.from(html.matchAll(/<a [^>]*href="([^"]*)"/g), ([, link = '']) => link)
    return links
      .filter((link) => !/^[a-z]+:/.test(link))
      .filter((link) => {
        const target = targetOf(link, file)
        // The reference of the API is built by another command.
        if (target.startsWith('api/') || !target.endsWith('.html')) return false
        const id = decodeURIComponent(link.split('#')[1] ?? '')
        const pageOfTarget = pages.get(target)
        return pageOfTarget === undefined || (id !== '' && !pageOfTarget.includes(` id="${id}"`))
      })
      .map((link) => `${file}: ${link}`)
  })
  expect(pages.size).toBeGreaterThan(40)
  expect(dead).toEqual([])
})

withBrowser.it('pictures follow the switch of the site', async () => {
  await using served = await serveFolder(site)
  const browser = await launchBrowser()
  onTestFinished(() => browser.close())
  const { page } = await openPage(browser, `${served.url}training/local`, { colorScheme: 'light' })
  const shown = async (theme: string): Promise<number> =>
    page.locator(`.vp-doc img[src*="-${theme}."]:visible`).count()
  expect([await shown('light'), await shown('dark')]).toEqual([3, 0])
  await page.getByRole('switch', { name: 'Switch to dark theme' }).click()
  expect([await shown('light'), await shown('dark')]).toEqual([0, 3])
})

/** Serves the built site below the path that GitHub Pages has. */
async function serveFolder(folder: string): Promise<AsyncDisposable & { readonly url: string }> {
  const types: Readonly<Record<string, string>> = {
    '.html': 'text/html',
    '.js': 'text/javascript',
    '.css': 'text/css',
    '.png': 'image/png',
  }
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://site')
    const place = pathname.replace('/osmosis-sdk-typescript/', '')
    const file = path.extname(place) === '' ? `${place || 'index'}.html` : place
    response.setHeader('content-type', types[path.extname(file)] ?? 'application/octet-stream')
    createReadStream(path.join(folder, file))
      .on('error', () => response.writeHead(404).end())
      .pipe(response)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/osmosis-sdk-typescript/`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** MiniSearch, which VitePress brings along. */
function searchLibrary(): { loadJSON: (json: string, options: object) => SearchIndex } {
  const ofSite = createRequire(path.join(root, 'docs/package.json'))
  const ofVitePress = createRequire(ofSite.resolve('vitepress/package.json'))
  const library = ofVitePress('minisearch') as { default?: unknown }
  return (library.default ?? library) as ReturnType<typeof searchLibrary>
}
