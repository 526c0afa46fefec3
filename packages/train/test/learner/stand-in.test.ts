// @module-tag slow
import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect } from 'vitest'

import { pythonWithTorch, withTorch } from '../../../../test/kit/index.ts'

const { it } = withTorch()

// The other cases of this file run at night. This one says whether they can be believed.
it('the stand-in of vLLM answers in the shapes that were recorded of it', async () => {
  const file = path.join(import.meta.dirname, 'test_vllm_server.py')
  const args = [file, 'WithVllm.test_the_stand_in_answers_as_vllm_does']
  const { stderr } = await promisify(execFile)(pythonWithTorch() ?? '', args)
  expect(stderr).toMatch(/\nRan 1 test in .*\n\nOK\n$/)
})
