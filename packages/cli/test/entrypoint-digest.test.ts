import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { entrypointDigest } from '../src/queue/code-version.ts'
import { temporaryFolder } from './osmosis.ts'

const main = `import { AgentWorkflow } from '@osmosis/core'
import rules from './rules.json' with { type: 'json' }
import { near } from './near.js'
import { aliased } from '~/aliased.ts'
import { inner } from '#inner'
import { shared } from '../shared/words.ts'
import { installed } from '../node_modules/installed/index.js'
export class Solver extends AgentWorkflow {
  async run() {
    const { lazy } = await import('./lazy')
    console.log(rules, near, aliased, inner, shared, installed, lazy)
  }
}
`

const sources = [
  'app/main.ts',
  'app/rules.json',
  'app/near.ts',
  'app/aliased.ts',
  'app/inner.ts',
  'app/lazy.ts',
  'shared/words.ts',
]

function write(root: string, file: string, text: string): void {
  mkdirSync(path.dirname(path.join(root, file)), { recursive: true })
  writeFileSync(path.join(root, file), text)
}

/** A rollout that finds its sources in all the ways there are, and one that it does not import. */
function madeRollout(): string {
  const root = temporaryFolder()
  for (const file of sources) {
    const name = path.basename(file, '.ts')
    write(root, file, `export const ${name === 'words' ? 'shared' : name} = 1\n`)
  }
  write(root, 'app/main.ts', main)
  write(root, 'app/rules.json', '{}')
  write(root, 'app/other.ts', 'export const other = 1\n')
  write(root, 'node_modules/installed/index.js', 'export const installed = 1\n')
  write(root, 'app/package.json', '{"type":"module","imports":{"#inner":"./inner.ts"}}')
  write(root, 'app/tsconfig.json', '{"compilerOptions":{"paths":{"~/*":["./*"]}}}')
  return root
}

it('an entrypoint has the same digest in every folder, however it is named there', async () => {
  const root = madeRollout()
  const elsewhere = path.join(temporaryFolder(), 'deeper/copy')
  cpSync(root, elsewhere, { recursive: true })
  const linked = path.join(temporaryFolder(), 'link')
  symlinkSync(path.join(root, 'app'), linked)
  const digest = await entrypointDigest(path.join(root, 'app/main.ts'))
  expect(digest).toMatch(/^[\da-f]{64}$/)
  for (const name of [
    path.join(elsewhere, 'app/main.ts'),
    path.join(linked, 'main.ts'),
    path.relative('', path.join(root, 'app/main')),
  ]) {
    expect(await entrypointDigest(name)).toBe(digest)
  }
})

it.each(sources)('the digest is another one when %s changes', async (file) => {
  const root = madeRollout()
  const entrypoint = path.join(root, 'app/main.ts')
  const before = await entrypointDigest(entrypoint)
  const text = file.endsWith('.json') ? '{"a":1}' : `${main}// changed\n`
  write(root, file, file === 'app/main.ts' || file.endsWith('.json') ? text : '// changed\n')
  expect(await entrypointDigest(entrypoint)).not.toBe(before)
})

it('the digest stays when a package changes, or a file that is not imported', async () => {
  const root = madeRollout()
  const entrypoint = path.join(root, 'app/main.ts')
  const before = await entrypointDigest(entrypoint)
  write(root, 'node_modules/installed/index.js', 'export const installed = 2\n')
  write(root, 'app/other.ts', 'export const other = 2\n')
  expect(await entrypointDigest(entrypoint)).toBe(before)
})

it('an entrypoint whose imports cannot be followed has none, and its version can be named', async () => {
  const root = temporaryFolder()
  write(root, 'main.ts', "import { gone } from './gone.ts'\nconsole.log(gone)\n")
  await expect(entrypointDigest(path.join(root, 'main.ts'))).rejects.toMatchObject({
    code: 'invalid_entrypoint',
    message: expect.stringMatching(/OSMOSIS_CODE_VERSION.*main\.ts:1:21: .*gone\.ts/s),
  })
})
