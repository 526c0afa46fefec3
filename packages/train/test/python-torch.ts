import { spawnSync } from 'node:child_process'

import { onlyIf, refuseWhereAllIsInstalled, type TestsWithNeeds } from '@osmosis/testing/kit'

const findTorch = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'

/** A Python that has torch; undefined where there is none. Debian's package belongs to Debian's Python. */
export const pythonWithTorch = ['python3', '/usr/bin/python3'].find(
  (program) => spawnSync(program, ['-c', findTorch]).status === 0,
)

/** `it` of vitest for tests that need {@link pythonWithTorch}. */
export function withTorch(): TestsWithNeeds {
  if (pythonWithTorch === undefined) refuseWhereAllIsInstalled('python3-torch')
  return onlyIf(pythonWithTorch !== undefined, 'python3-torch')
}
