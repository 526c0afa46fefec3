import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect } from 'vitest'

import { pythonWithModels, withModels } from '../kit/index.ts'

const script = path.resolve(import.meta.dirname, '../../scripts/real-trainers/osmosis_sdk.py')

withModels(['osmosis_ai']).it(
  'the SDK for Python drives our server, and our controller drives its server',
  { tags: 'nightly', timeout: 120_000 },
  async () => {
    const { stdout } = await promisify(execFile)(pythonWithModels(['osmosis_ai']) ?? '', [script])
    expect(stdout).toContain('8 passed, 0 failed')
  },
)
