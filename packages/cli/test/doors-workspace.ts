import { chmodSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { exampleFiles, writeNewFiles } from '@osmosis/create'

import { pythonWithTorch, tinyTransformer } from '../../../test/kit/index.ts'
import { temporaryFolder } from './osmosis.ts'

/** The training of the example. */
export const doorsTraining = 'configs/training/doors.toml'

/** The workspace of the example, and flags for a learner that needs no transformers. */
export async function doorsWorkspace(): Promise<{ folder: string; learner: readonly string[] }> {
  const folder = temporaryFolder()
  await writeNewFiles(folder, exampleFiles('doors', 'doors'))
  symlinkSync(
    path.resolve(import.meta.dirname, '../node_modules'),
    path.join(folder, 'node_modules'),
  )
  const python = path.join(folder, 'python')
  writeFileSync(
    python,
    `#!/bin/sh\nOMP_NUM_THREADS=1 exec ${pythonWithTorch()} "$@" --policy-class ${tinyTransformer}\n`,
  )
  chmodSync(python, 0o755)
  return {
    folder,
    learner: ['--model', 'tiny', '--python', python, '--lora-rank', '0', '--lr', '1e-3'],
  }
}
