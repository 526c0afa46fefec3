// Writes a note before the first command of every document that installs packages of this repository.
//
//   npx -y pnpm@12 exec node scripts/install-notes.ts
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** Whether the packages are on npm. After the first release set it to true and run this script. */
const published = false

const root = path.resolve(import.meta.dirname, '..')
const page = 'docs/get-started/from-a-clone.md'
const note = 'Not on npm yet: [install from a clone]'

/** Documents that may need the note. */
export const notedDocuments = globSync(['README.md', 'docs/**/*.md', 'packages/*/README.md'], {
  cwd: root,
  exclude: ['**/node_modules/**', page],
})

/** The text of a document with the note, if it needs one. */
export function withNote(document: string, text: string): string {
  const bare = text
    .split('\n\n')
    .filter((paragraph) => !paragraph.startsWith(`> ${note}`))
    .join('\n\n')
  const install = /^```\w+\n(?:npm (?:install|create)|pnpm (?:add|create)) .*@osmosis/m.exec(bare)
  if (published || install === null) return bare
  const link = path.posix.relative(path.posix.dirname(document), page)
  return `${bare.slice(0, install.index)}> ${note}(${link}).\n\n${bare.slice(install.index)}`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const document of notedDocuments) {
    const file = path.join(root, document)
    writeFileSync(file, withNote(document, readFileSync(file, 'utf8')))
  }
}
