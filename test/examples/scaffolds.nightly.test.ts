import { expect, it } from 'vitest'

import {
  correctInstructions,
  countsOfShop,
  followAdvice,
  installedFrameworks,
  makeWorkspaces,
  problemsOf,
} from './scaffolds.ts'

const [first, ...others] = installedFrameworks

makeWorkspaces()

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
