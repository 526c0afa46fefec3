import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

import { root } from './command.ts'
import {
  correctInstructions,
  countsOfShop,
  folderOf,
  followAdvice,
  installedFrameworks,
  link,
  makeWorkspaces,
  parentFolder,
  problemsOf,
} from './scaffolds.ts'

const [first, ...others] = installedFrameworks

makeWorkspaces()

it('new workspaces type-check strictly', async () => {
  // One program for all of them, in which each finds its own packages.
  const parent = parentFolder()
  const settings = {
    extends: path.join(folderOf(first), 'tsconfig.json'),
    include: ['*/rollouts', '*/policies'],
  }
  writeFileSync(path.join(parent, 'tsconfig.json'), JSON.stringify(settings))
  link('@types/node', parent)
  const { stdout } = await promisify(execFile)(
    path.join(root, 'node_modules/.bin/tsc'),
    ['--listFiles'],
    { cwd: parent },
  )
  for (const framework of installedFrameworks) {
    expect(stdout).toContain(path.join(folderOf(framework), 'rollouts/shop/main.ts\n'))
  }
})

it.each(others)(
  'a new workspace of %s has failing rows to look at, and to correct',
  async (framework) => {
    expect(await followAdvice(framework)).toMatchObject(countsOfShop)
    expect(await correctInstructions(framework)).toMatch(/^Better by /m)
  },
)

// Only loops have other files; the modules of the other frameworks are run above.
it.each([first, 'agent-loop'] as const)(
  'a new workspace of %s has nothing to be found by checks',
  async (name) => {
    expect(await problemsOf(name)).toEqual([])
  },
)
