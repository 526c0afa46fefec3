import { execFile, spawnSync } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

import { onlyIf, refuseWhereAllIsInstalled } from '@osmosis/testing/kit'
import { expect } from 'vitest'

const findTorch = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'
// Debian's package belongs to Debian's Python, which need not be the first on PATH.
const python = ['python3', '/usr/bin/python3'].find(
  (program) => spawnSync(program, ['-c', findTorch]).status === 0,
)
if (python === undefined) refuseWhereAllIsInstalled('python3-torch')

const { it } = onlyIf(python !== undefined, 'python3-torch')

// The cases are Python's, because the learner's users read and change Python.
it(
  'the learner samples, trains, saves and continues as its Python tests say',
  { timeout: 900_000 },
  async () => {
    const file = path.join(import.meta.dirname, 'test_learner.py')
    const output = await promisify(execFile)(python ?? '', [file]).then(
      ({ stderr }) => stderr,
      (error: { stderr: string }) => error.stderr,
    )
    expect(output).toMatch(/\nOK\n$/)
  },
)
