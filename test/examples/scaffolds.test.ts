import { execFile } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import type { Framework } from '@osmosis/create'
import { expect, it } from 'vitest'

import {
  correctInstructions,
  countsOfShop,
  folderOf,
  followAdvice,
  installedFrameworks,
  makeWorkspaces,
  manifestOf,
  problemsOf,
} from './scaffolds.ts'

const [first, ...others] = installedFrameworks

makeWorkspaces()

it('new workspaces differ in no code but the module of their framework, and loops have no grader', () => {
  const filesOf = (framework: Framework): Record<string, unknown> => {
    const cwd = folderOf(framework)
    const files = globSync('**/*.{ts,json,jsonl}', {
      cwd,
      exclude: ['node_modules', '.osmosis', '**/{main,grader}.ts', 'package.json'],
    })
    expect(files).toHaveLength(6)
    const texts = files.map((file) => [file, readFileSync(path.join(cwd, file), 'utf8')])
    return { ...(Object.fromEntries(texts) as object), scripts: manifestOf(cwd).scripts }
  }
  for (const framework of installedFrameworks) {
    expect(filesOf(framework)).toEqual(filesOf(first))
    const grader = path.join(folderOf(framework), 'rollouts/shop/grader.ts')
    expect(existsSync(grader)).toBe(framework !== 'agent-loop')
  }
})

it('the reward of a new workspace passes its test', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--run', 'test'], {
    cwd: folderOf(first),
  })
  expect(stdout).toMatch(/pass [1-9]/)
})

it('a new workspace has failing rows to look at', { tags: 'slow' }, async () => {
  expect(await followAdvice(first)).toMatchObject(countsOfShop)
})

// The tests of the documents do this with a new workspace as the quickstart tells.
it(
  'correcting the instructions as the failing transcript suggests gives a better run',
  { tags: 'nightly' },
  async () => {
    await followAdvice(first)
    const compared = await correctInstructions(first)
    expect(compared).toMatch(/^Better by /m)
    expect(compared).not.toContain('No row differs')
  },
)

it.each(others)(
  'a new workspace of %s has failing rows to look at, and to correct',
  { tags: 'nightly' },
  async (framework) => {
    expect(await followAdvice(framework)).toMatchObject(countsOfShop)
    expect(await correctInstructions(framework)).toMatch(/^Better by /m)
  },
)

// Only loops have other files; the modules of the other frameworks are run above.
it.each([first, 'agent-loop'] as const)(
  'a new workspace of %s has nothing to be found by checks',
  { tags: 'nightly' },
  async (name) => {
    expect(await problemsOf(name)).toEqual([])
  },
)
