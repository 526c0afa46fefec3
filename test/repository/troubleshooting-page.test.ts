import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import path from 'node:path'

import { leasedErrorCategorySchema, rolloutLossSchema } from '@osmosis/protocol/wire'
import { expect, it } from 'vitest'

import { read, root, section, tableColumn } from './documents.ts'

const page = read('docs/guides/troubleshooting.md')

/** The words of a union of strings in a source file. */
function unionOf(file: string, type: string): string[] {
  const [, union = ''] = new RegExp(`type ${type} =([^]*?)\\n(?:\\n|export)`).exec(read(file)) ?? []
  return [...union.matchAll(/'(\w+)'/g)].map(([, word = '']) => word)
}

/** What a pattern finds in the sources of a folder, each once. */
function wordsIn(folder: string, pattern: RegExp): string[] {
  const files = globSync(`${folder}/**/*.ts`, { cwd: root })
  const found = files.flatMap((file) =>
    [...read(file).matchAll(pattern)].map(([, word = '']) => word),
  )
  return [...new Set(found)]
}

it('the page has every code of an OsmosisError, with what the code says of it', () => {
  const script = path.join(root, 'scripts/error-tables.ts')
  expect(spawnSync(process.execPath, [script], { encoding: 'utf8' })).toMatchObject({
    stderr: '',
    status: 0,
  })
  expect(tableColumn(section(page, 'Errors'))).toContain('no_samples')
})

it('the page has every type of failure that an item of an evaluation can have', () => {
  const types = [
    ...leasedErrorCategorySchema.options,
    ...rolloutLossSchema.options,
    ...wordsIn('packages/eval/src/run', /failed\('(\w+)'/g),
    ...wordsIn('packages/eval/src/run', /errorType: '(\w+)'/g),
    'workflow_failed',
    'grader_failed',
  ]
  expect(tableColumn(section(page, 'Rollouts without a reward')).toSorted()).toEqual(
    types.toSorted(),
  )
})

it('the page has every code of the commands of the platform, and every warning', () => {
  const errors = [
    ...unionOf('packages/cli/src/platform/client/platform-error.ts', 'PlatformErrorCode'),
    'INTERNAL',
  ]
  const warnings = [
    ...wordsIn('packages/cli/src/platform', /\bwarn\(\s*'([A-Z_]+)'/g),
    ...wordsIn('packages/cli/src/platform', /^ {2}\w+: '([A-Z_]+)',$/gm),
  ].filter((code) => !errors.includes(code))
  expect(tableColumn(section(page, 'Commands of the platform')).toSorted()).toEqual(
    [...errors, ...new Set(warnings)].toSorted(),
  )
})
