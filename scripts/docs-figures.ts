// Prints the figures of the documents that test/repository/document-figures.test.ts limits.
//
//   npx -y pnpm@12 run docs:figures
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { findIdioms } from './idioms.ts'

const root = path.resolve(import.meta.dirname, '..')

/** Pages that a script writes. */
const generated = ['docs/reference/flags.md']

/** Figures of the documents. Words are what `wc -w` counts, code and tables included. */
export interface DocumentFigures {
  readonly readme: number
  /** Words of the README of each package, by its path. */
  readonly packages: Readonly<Record<string, number>>
  readonly docs: { readonly written: number; readonly generated: number }
  readonly idioms: ReturnType<typeof findIdioms>
  /** Versions of Node.js that documents name, with the places. */
  readonly nodeVersions: ReadonlyMap<string, readonly string[]>
}

/** Reads all documents and sources that git has or would add. */
export function documentFigures(): DocumentFigures {
  const files = trackedFiles()
  const documents = files.filter(
    (file) => file.endsWith('.md') && !/CHANGELOG|^\.changeset/.test(file),
  )
  const pages = documents.filter((file) => file.startsWith('docs/'))
  const sum = (some: readonly string[]): number =>
    some.reduce((total, file) => total + words(file), 0)
  return {
    readme: words('README.md'),
    packages: Object.fromEntries(
      documents
        .filter((file) => /^packages\/[^/]+\/README\.md$/.test(file))
        .map((file) => [file, words(file)]),
    ),
    docs: {
      written: sum(pages.filter((file) => !generated.includes(file))),
      generated: sum(pages.filter((file) => generated.includes(file))),
    },
    idioms: findIdioms(files.map((file) => ({ file, text: read(file) }))),
    nodeVersions: nodeVersions(documents),
  }
}

function trackedFiles(): string[] {
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--deduplicate']
  const listed = execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 })
  const deleted = execFileSync('git', ['ls-files', '-z', '--deleted'], {
    cwd: root,
    encoding: 'utf8',
  })
  const gone = new Set(deleted.split('\0'))
  return listed
    .split('\0')
    .filter((file) => /\.(?:tsx?|mjs|md|toml|py)$/.test(file) && !gone.has(file))
    .filter((file) => !/(?:^|\/)api\/|CHANGELOG|^\.changeset\//.test(file))
}

function nodeVersions(documents: readonly string[]): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const document of documents) {
    for (const [, version = ''] of read(document).matchAll(/Node(?:\.js)? v?(\d+(?:\.\d+)*)/g)) {
      found.set(version, [...(found.get(version) ?? []), document])
    }
  }
  return found
}

const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')
const words = (file: string): number => read(file).split(/\s+/).filter(Boolean).length

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { readme, packages, docs, idioms, nodeVersions: versions } = documentFigures()
  const longest = Object.entries(packages).toSorted(([, a], [, b]) => b - a)
  console.log(`README.md                      ${readme} words, at most 600`)
  for (const [file, count] of longest) console.log(`${file.padEnd(30)} ${count} words, at most 250`)
  console.log(`docs, written by hand          ${docs.written} words, at most 38000`)
  console.log(`docs, with generated pages     ${docs.written + docs.generated} words`)
  console.log(`idioms per 1,000 lines         ${idioms.perThousandLines.toFixed(2)}, at most 1.0`)
  console.log(`versions of Node.js named      ${[...versions.keys()].join(', ')}`)
}
