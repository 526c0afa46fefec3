import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../../..')

it('templates name the versions that the packages here have', async () => {
  const script = path.join(root, 'scripts/template-versions.ts')
  expect(await promisify(execFile)(process.execPath, [script])).toEqual({ stdout: '', stderr: '' })
})
