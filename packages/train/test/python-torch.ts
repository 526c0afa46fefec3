import { spawnSync } from 'node:child_process'

import { onlyIf, refuseWhereAllIsInstalled, type TestsWithNeeds } from '@osmosis/testing/kit'

/** A Python that has torch; undefined where there is none. Debian's package belongs to Debian's Python. */
export const pythonWithTorch = pythonWith('torch')

/** A Python that has what a real model needs, and TRL, which ships the chat templates of models. */
export const pythonWithModels = pythonWith('torch', 'transformers', 'peft', 'trl')

/** `it` of vitest for tests that need {@link pythonWithTorch}. */
export function withTorch(): TestsWithNeeds {
  if (pythonWithTorch === undefined) refuseWhereAllIsInstalled('python3-torch')
  return onlyIf(pythonWithTorch !== undefined, 'python3-torch')
}

/** `it` of vitest for tests that need {@link pythonWithModels}, which no package of Debian has. */
export function withModels(): TestsWithNeeds {
  return onlyIf(pythonWithModels !== undefined, 'python3 with torch, transformers, peft and trl')
}

function pythonWith(...modules: readonly string[]): string | undefined {
  const names = JSON.stringify(modules)
  const find = `from importlib.util import find_spec as f; exit(not all(map(f, ${names})))`
  return ['python3', '/usr/bin/python3'].find(
    (program) => spawnSync(program, ['-c', find]).status === 0,
  )
}
