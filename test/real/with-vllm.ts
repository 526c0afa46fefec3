import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import { onlyIf, refuseWhereAllIsInstalled, type TestsWithNeeds } from '../kit/with-programs.ts'

const root = path.resolve(import.meta.dirname, '../..')

/** The Python that has vLLM; undefined where `.ci/python-environment vllm` was never called. */
function pythonWithVllm(): string | undefined {
  const file = path.join(root, '.ci/python-environment')
  const found = spawnSync('bash', [file, 'vllm', '--find'], { encoding: 'utf8' })
  return found.status === 0 ? found.stdout.trim() : undefined
}

const python = pythonWithVllm()

/**
 * `describe` and `it` of vitest for tests with vLLM.
 *
 * @throws Error when it is missing and `OSMOSIS_TESTS_REQUIRE_PROGRAMS` is set, as in `.ci/run`
 */
export function withVllm(): TestsWithNeeds {
  if (python === undefined) refuseWhereAllIsInstalled('vLLM', '.ci/python-environment vllm')
  return onlyIf(python !== undefined, 'bash .ci/python-environment vllm')
}

/** The program `vllm` lies beside it. */
export function vllmPython(): string {
  if (python === undefined) throw new Error('There is no vLLM: bash .ci/python-environment vllm')
  return python
}

/** A folder with SmolLM2-135M-Instruct in an empty one, which the caller removes. */
export async function smallModel(): Promise<string> {
  const folder = path.join(
    await mkdtemp(path.join(tmpdir(), 'osmosis-real-')),
    'SmolLM2-135M-Instruct',
  )
  await promisify(execFile)(vllmPython(), [
    path.join(root, 'scripts/real-models/smollm2.py'),
    folder,
  ])
  return folder
}
