// @module-tag nightly
import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

import { pythonWithTorch, withTorch } from '../../../../test/kit/index.ts'
import { expect } from 'vitest'

const { it } = withTorch()

// The cases are Python's, because the learner's users read and change Python.
it(
  'the learner samples, trains, saves and continues as its Python tests say',
  { timeout: 900_000 },
  async () => {
    const file = path.join(import.meta.dirname, 'test_learner.py')
    const output = await promisify(execFile)(pythonWithTorch() ?? '', [file]).then(
      ({ stderr }) => stderr,
      (error: { stderr: string }) => error.stderr,
    )
    expect(output).toMatch(/\nOK\n$/)
  },
)
