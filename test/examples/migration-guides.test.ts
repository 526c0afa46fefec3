import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { root } from './command.ts'

const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')

// The programs themselves are compiled and run by the tests of the adapter.
it.each(globSync('docs/migrating/*.md', { cwd: root }))(
  '%s shows exactly the difference between the two programs of its adapter',
  (guide) => {
    const [, diff = ''] = /```diff\n([^]*?)```\n/.exec(read(guide)) ?? []
    const lines = diff.split('\n').slice(0, -1)
    const side = (marks: string): string =>
      lines
        .filter((line) => line === '' || marks.includes(line.charAt(0)))
        .map((line) => `${line.slice(1)}\n`)
        .join('')
    const programs = `packages/${path.basename(guide, '.md')}/test/migration`

    expect(lines.filter((line) => line !== '' && !' +-'.includes(line.charAt(0)))).toEqual([])
    expect(side(' -')).toBe(read(`${programs}/before.ts`))
    expect(side(' +')).toBe(read(`${programs}/after.ts`))
  },
)

it('every adapter has a migration guide', () => {
  const programs = globSync('packages/*/test/migration/before.ts', { cwd: root })
  const guides = programs.map((file) => `docs/migrating/${file.split('/')[1]}.md`)
  expect(guides).toHaveLength(3)
  for (const guide of guides) expect(read(guide)).toContain('## The four steps')
})
