// Copies the pages that the README of a package links into the folder `docs` of that package, so that whoever has it in node_modules can
// read them there, a coding agent for example. Links between these pages stay; all others become addresses of the site. READMEs link the
// addresses of the site themselves, because they are read in three places: on GitHub, on npm and in node_modules.
//
//   node scripts/package-docs.ts [folder of a package …]
//
// Without folders it does so for all packages. `prepack` of each package runs it.
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import process from 'node:process'

import { pageAt, withWholeLinks } from '../docs/.vitepress/page-links.ts'

const root = path.resolve(import.meta.dirname, '..')
/** Bytes: what a coding agent can read of one package without filling its context. */
const maxBytes = 200_000

const given = process.argv.slice(2).map((folder) => path.resolve(folder))
const folders =
  given.length > 0 ? given : globSync('packages/*/', { cwd: root }).map((p) => path.join(root, p))

for (const folder of folders) {
  const docs = path.join(folder, 'docs')
  rmSync(docs, { recursive: true, force: true })
  const pages = pagesOf(readFileSync(path.join(folder, 'README.md'), 'utf8'))
  let bytes = 0
  for (const page of pages) {
    const text = readFileSync(path.join(root, 'docs', page), 'utf8')
    const copy = withNarrowTables(withWholeLinks(text, page, (target) => pages.has(target)))
    bytes += Buffer.byteLength(copy)
    const file = path.join(docs, page)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, copy)
  }
  if (bytes > maxBytes) {
    throw new Error(
      `${docs} has ${bytes} bytes, and at most ${maxBytes} are carried: link fewer pages in the README.`,
    )
  }
}

/** Without the spaces that align the columns of tables, which are half of the page of flags. */
function withNarrowTables(text: string): string {
  return text.replaceAll(/^\|.*\|$/gm, (row) =>
    row.replaceAll(/ {2,}(?=\|)/g, ' ').replaceAll(/-{4,}/g, '---'),
  )
}

/** The pages that a README links, as paths below docs. */
function pagesOf(readme: string): ReadonlySet<string> {
  const links = readme.matchAll(/\]\((https:[^()\s#]+)(?:#[^()\s]*)?\)/g)
  return new Set([...links].flatMap(([, address = '']) => pageAt(address) ?? []))
}
