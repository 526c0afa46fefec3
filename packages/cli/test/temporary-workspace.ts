import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { temporaryFolder, workspace } from './osmosis.ts'

/** Files of the test workspace that tests of other workspaces can link to. */
const shared = [
  'data/words.jsonl',
  'policies/echo.ts',
  'rollouts/echo/main.ts',
  'rollouts/echo/normalise.ts',
]

/** A workspace of a test's own, with the echo of the test workspace in it and these files. */
export function temporaryWorkspace(files: Readonly<Record<string, string>>): string {
  const root = temporaryFolder()
  symlinkSync(path.resolve(import.meta.dirname, '../node_modules'), path.join(root, 'node_modules'))
  for (const file of shared) {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true })
    symlinkSync(path.join(workspace, file), path.join(root, file))
  }
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true })
    writeFileSync(path.join(root, file), text)
  }
  return root
}

/** An eval config, with `[secrets]` unless something else is said. */
export function evalConfig(rollout: string, rest = '[secrets]\nrequired = []\n'): string {
  return `[experiment]
rollout = "${rollout}"
entrypoint = "main.ts"
model_path = "test/model"
dataset = "words"

${rest}`
}
