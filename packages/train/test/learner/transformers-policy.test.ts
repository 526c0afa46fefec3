// @module-tag slow
import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect } from 'vitest'

import { pythonWithModels, withModels } from '../../../../test/kit/index.ts'

const { it } = withModels()

// The cases are Python's, because they compare the learner with transformers and peft themselves.
it(
  'a model of transformers samples, trains and is exported as plain transformers says, for one sequence at a time',
  { timeout: 1_800_000 },
  async () => {
    const file = path.join(import.meta.dirname, 'test_transformers_policy.py')
    const env = { ...process.env, OMP_NUM_THREADS: '1' }
    const output = await promisify(execFile)(pythonWithModels() ?? '', [file, '--failfast'], {
      env,
    }).then(
      ({ stderr }) => stderr,
      (error: { stderr: string }) => error.stderr,
    )
    expect(output).toMatch(/\nOK\n$/)
  },
)
