// @module-tag nightly
import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect } from 'vitest'

import { pythonWithTorch, withTorch } from '../../../../test/kit/index.ts'

const { it } = withTorch()

// The cases are Python's, because the learner's users read and change Python. Those that need transformers have a test of their own.
const files = globSync('test_*.py', {
  cwd: import.meta.dirname,
  exclude: ['test_transformers_policy.py'],
}).toSorted()

it.each(files)('the learner does what %s says', { timeout: 900_000 }, async (file) => {
  const args = [path.join(import.meta.dirname, file)]
  const output = await promisify(execFile)(pythonWithTorch() ?? '', args).then(
    ({ stderr }) => stderr,
    (error: { stderr: string }) => error.stderr,
  )
  expect(output).toMatch(/\nOK\n$/)
})
