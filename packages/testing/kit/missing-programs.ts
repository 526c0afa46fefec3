import { existsSync } from 'node:fs'
import path from 'node:path'

/**
 * Those of the programs that are not on this machine: a test that needs them is skipped, and names them.
 *
 * @throws Error in CI on Linux, where `.ci/programs` installs what tests need
 */
export function missingPrograms(...names: readonly string[]): string[] {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter)
  const missing = names.filter(
    (name) => !folders.some((folder) => existsSync(path.join(folder, name))),
  )
  if (missing.length > 0 && process.env['CI'] && process.platform === 'linux') {
    throw new Error(`${missing.join(', ')} should be installed here: see .ci/programs.`)
  }
  return missing
}
