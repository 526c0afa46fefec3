// While the packages are not on npm, a note in README.md and one on each page of the site that installs them say so.
// The site writes its notes when it is built; this script writes the one of README.md.
//
//   npx -y pnpm@12 exec node scripts/install-notes.ts
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** Whether the packages are on npm. After the first release set it to true and run this script. */
export const published = false

/** A command that installs packages of this repository, in its own line. */
export const installCommand = /^(?:npm (?:install|create)|pnpm (?:add|create)) .*@osmosis/m

export const noteText = 'The packages are not on npm yet'
const note = `> ${noteText}: the commands below need [a registry from a clone](docs/get-started/from-a-clone.md).`

/** The text of README.md with its note, which stands before the first block of commands that installs packages. */
export function withNote(text: string): string {
  const paragraphs = text.split('\n\n').filter((paragraph) => !paragraph.includes(noteText))
  let first = paragraphs.findIndex((paragraph) => installCommand.test(paragraph))
  if (published || first === -1) return paragraphs.join('\n\n')
  // A block of commands with an empty line is several paragraphs, of which only the first may follow the note.
  while (isInBlock(paragraphs.slice(0, first))) first -= 1
  return paragraphs.toSpliced(first, 0, note).join('\n\n')
}

/** Whether a block of code is open behind these paragraphs. */
function isInBlock(paragraphs: readonly string[]): boolean {
  return (paragraphs.join('\n').match(/^```/gm) ?? []).length % 2 === 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const file = path.resolve(import.meta.dirname, '../README.md')
  writeFileSync(file, withNote(readFileSync(file, 'utf8')))
}
