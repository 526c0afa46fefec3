// @module-tag nightly
import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect } from 'vitest'

import { pythonWithModels, withModels } from '../../../../test/kit/index.ts'

const { it } = withModels()

it(
  'a tiny Qwen3 learns the door task with LoRA and with all weights, over four seeds each',
  { timeout: 3_600_000 },
  async () => {
    const file = path.join(import.meta.dirname, 'real_parts.py')
    const env = { ...process.env, OMP_NUM_THREADS: '1' }
    const args = [file, '--only', 'learning']
    const { stdout } = await promisify(execFile)(pythonWithModels() ?? '', args, { env })
    expect(stdout.match(/^learning, rank 8, seed/gm)).toHaveLength(4)
    expect(stdout.match(/^learning, rank 0, seed/gm)).toHaveLength(4)
  },
)
