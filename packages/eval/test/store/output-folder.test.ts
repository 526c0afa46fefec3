import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { createRun, defaultOutputRoot } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { madeManifest, temporaryFolder } from '../../../../test/kit/index.ts'

async function storeRun(outputRoot: string): Promise<void> {
  const store = await createRun({ outputRoot, manifest: madeManifest() })
  await store.close()
}

it('transcripts below .osmosis are no files for git', async () => {
  const workspace = await temporaryFolder()
  const git = (...args: string[]): string =>
    execFileSync('git', args, { cwd: workspace, encoding: 'utf8' })
  git('init', '--quiet')
  await storeRun(defaultOutputRoot(workspace))
  expect(git('status', '--porcelain', '--untracked-files=all')).toBe('')
  expect(readFileSync(path.join(workspace, '.osmosis/.gitignore'), 'utf8')).toBe('*\n')
})

it("a user's own .gitignore in .osmosis stays, and other folders get none", async () => {
  const workspace = await temporaryFolder()
  await storeRun(defaultOutputRoot(workspace))
  const file = path.join(workspace, '.osmosis/.gitignore')
  writeFileSync(file, 'cache/\n')
  const elsewhere = path.join(workspace, 'runs')
  await storeRun(elsewhere)
  expect(readFileSync(file, 'utf8')).toBe('cache/\n')
  expect(() => readFileSync(path.join(elsewhere, '.gitignore'))).toThrow('ENOENT')
})
