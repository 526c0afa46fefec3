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
} from './scaffolds.ts'

const [first] = installedFrameworks

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

it('a new workspace has failing rows to look at', async () => {
  expect(await followAdvice(first)).toMatchObject(countsOfShop)
})

it('correcting the instructions as the failing transcript suggests gives a better run', async () => {
  const compared = await correctInstructions(first)
  expect(compared).toMatch(/^Better by /m)
  expect(compared).not.toContain('No row differs')
})
