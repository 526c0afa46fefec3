// Writes the tables of error codes in docs/guides/troubleshooting.md from the comments of packages/core/src/errors.ts.
//
//   node scripts/error-tables.ts           fail when they are out of date
//   node scripts/error-tables.ts --update  rewrite them
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const source = readFileSync(path.join(root, 'packages/core/src/errors.ts'), 'utf8')
const page = path.join(root, 'docs/guides/troubleshooting.md')
const text = readFileSync(page, 'utf8')
const [, before, after] =
  /^([^]*<!-- errors -->\n)[^]*(<!-- end of errors -->[^]*)$/.exec(text) ?? []
if (before === undefined || after === undefined) throw new Error(`no place for errors in ${page}`)

const [, codes = ''] = /errorCategories = \{\n([^]*?)\n\} as const/.exec(source) ?? []
const sections = codes.split(/^ {2}\/\/ /m).slice(1)
const updated = [before, ...sections.map(toSection), after].join('\n')

if (process.argv.includes('--update')) writeFileSync(page, updated)
else if (updated !== text) {
  const again = 'node scripts/error-tables.ts --update'
  process.stderr.write(`The errors in docs/guides/troubleshooting.md are out of date: ${again}\n`)
  process.exitCode = 1
}

function toSection(section: string): string {
  const [title = ''] = section.split('\n', 1)
  const found = section.matchAll(/\/\*\*([^]*?)\*\/\s+(\w+): '/g)
  const rows = Array.from(found, ([, comment = '', code = '']) => [`\`${code}\``, plain(comment)])
  return `### ${title}\n\n${table([['code', 'what happened, and what to do'], ...rows])}\n`
}

/** With the columns of a formatted page. */
function table(rows: readonly (readonly string[])[]): string {
  const [wide = 0, wider = 0] = [0, 1].map((column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  const [head, ...others] = rows.map(
    ([code = '', meaning = '']) => `| ${code.padEnd(wide)} | ${meaning.padEnd(wider)} |`,
  )
  return [head, `| ${'-'.repeat(wide)} | ${'-'.repeat(wider)} |`, ...others].join('\n')
}

/** The text of a comment, whose links to the site then lead from page to page. */
function plain(comment: string): string {
  return comment
    .replace(/\s+\* /g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .replaceAll(
      /\]\(https:\/\/[\w-]+\.github\.io\/[\w-]+\/([\w/-]+)([^)]*)\)/g,
      (_, file: string, anchor: string) => {
        const link = path.posix.relative('guides', `${file}.md`)
        return `](${link}${anchor})`
      },
    )
}
