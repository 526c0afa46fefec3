import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parseEnv } from 'node:util'

import { OsmosisError } from '@osmosis/core'

/**
 * The environment of a command: the variables of this process, and behind them those of the file
 * that `OSMOSIS_ENV_FILE` names, else of the nearest `.env`, in the working folder or above it.
 *
 * @throws OsmosisError with code `invalid_config` when the named file cannot be read
 */
export function readEnvironment(): NodeJS.ProcessEnv {
  const environment = process.env // oxlint-disable-line node/no-process-env
  const named = environment['OSMOSIS_ENV_FILE']
  if (!named) return { ...nearestEnvFile(path.resolve()), ...environment }
  // Absolute for processes that are started in another folder.
  const file = path.resolve(named)
  const text = readIfThere(file)
  if (text !== undefined) return { ...parseEnv(text), ...environment, OSMOSIS_ENV_FILE: file }
  throw new OsmosisError('invalid_config', `There is no file ${named} with variables.`)
}

/** Gives this process what it lacks of that, for code that reads its variables by itself. */
export function completeEnvironment(): void {
  Object.assign(process.env, readEnvironment()) // oxlint-disable-line node/no-process-env
}

/** Whether `npx`, `pnpm exec` or a script runs this. They find commands that the user's shell does not. */
export function isRunByPackageManager(): boolean {
  return Boolean(process.env['npm_config_user_agent']) // oxlint-disable-line node/no-process-env
}

function nearestEnvFile(folder: string): NodeJS.Dict<string> {
  const text = readIfThere(path.join(folder, '.env'))
  if (text !== undefined) return parseEnv(text)
  const parent = path.dirname(folder)
  return parent === folder ? {} : nearestEnvFile(parent)
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    // Not there, a folder, or not for this user to read: none of it keeps a command from working.
    return undefined
  }
}
