import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { root } from './command.ts'

const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')

/** Programs that are too large to be installed here: test/programs installs and runs them. */
const programNames = ['claude-agent-sdk', 'codex']

const otherFrameworks = ['openai']

/** Where the programs of a guide are, in the order in which it shows them. */
function programsOf(guide: string): string[] {
  const name = path.basename(guide, '.md')
  if (programNames.includes(name)) return [`test/programs/${name}`]
  if (name !== 'any-framework') return [`packages/${name}/test/migration`]
  return otherFrameworks.map((framework) => `test/any-framework/migration/${framework}`)
}

// The programs themselves are compiled and run by the tests of the adapter.
it.each(globSync('docs/frameworks/[!i]*.md', { cwd: root }))(
  '%s shows exactly what differs between the programs before and after',
  (guide) => {
    const shown = [...read(guide).matchAll(/```diff\n([^]*?)```\n/g)].map(([, diff]) => diff)
    expect(shown).toEqual(programsOf(guide).map((programs) => shownDifference(programs)))
  },
)

/** What git says of the programs, without what is only indented; `…` stands for paragraphs that stay as they are. */
function shownDifference(programs: string): string {
  const options = ['--no-index', '--no-color', '--no-ext-diff', '-w', '-U999']
  const files = ['before.ts', 'after.ts'].map((name) => path.join(root, programs, name))
  const { stdout } = spawnSync('git', ['diff', ...options, ...files], { encoding: 'utf8' })
  const [, lines = ''] = stdout.split(/^@@ .*\n/m)
  const paragraphs = lines
    .trimEnd()
    .split('\n \n')
    .map((paragraph) => (/^[+-]/m.test(paragraph) ? paragraph : ' …'))
    .filter((paragraph, index, all) => paragraph !== ' …' || all[index - 1] !== ' …')
  return `${paragraphs.join('\n\n')}\n`
}

it('the lines shown for clients of other frameworks are lines of their programs', () => {
  const compact = (text: string): string => text.replaceAll(/\s|,(?=\s*(?:[)}\]]|$))/g, '')
  const shown = [...read('docs/frameworks/any-framework.md').matchAll(/```js\n([^]*?)```/g)]
  const programs = globSync('test/programs/clients/*/after.ts', { cwd: root }).map((file) =>
    read(file),
  )
  expect(shown).toHaveLength(programs.length)
  for (const [, text = ''] of shown) {
    const lines = text.split('\n').map(compact)
    const holders = programs.filter((program) =>
      lines.every((line) => compact(program).includes(line)),
    )
    expect(holders).toHaveLength(1)
  }
})

it('every adapter has a migration guide', () => {
  const programs = globSync('packages/*/test/migration/before.ts', { cwd: root })
  const names = [...programs.map((file) => file.split('/')[1]), ...programNames]
  const guides = names.map((name) => `docs/frameworks/${name}.md`)
  const shown = globSync('docs/frameworks/*.md', { cwd: root })
  const general = ['any-framework', 'index'].map((name) => `docs/frameworks/${name}.md`)
  expect([...guides, ...general].toSorted()).toEqual(shown.toSorted())
  for (const guide of guides) expect(read(guide)).toContain('## The four steps')
})
