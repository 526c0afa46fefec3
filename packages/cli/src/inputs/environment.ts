import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parseEnv } from 'node:util'

import { OsmosisError } from '@osmosis/core'
import { addToProcess, environment, fromHere, workingFolder } from '../command/surroundings.ts'

/**
 * The environment of a command: the variables it is called with, and behind them those of the file
 * that `OSMOSIS_ENV_FILE` names, else of the nearest `.env`, in the working folder or above it.
 *
 * @throws OsmosisError with code `invalid_config` when the named file cannot be read
 */
export function readEnvironment(): NodeJS.ProcessEnv {
  const given = environment()
  const named = given['OSMOSIS_ENV_FILE']
  if (!named) return { ...nearestEnvFile(workingFolder()), ...given }
  // Absolute for processes that are started in another folder.
  const file = fromHere(named)
  const text = readIfThere(file)
  if (text !== undefined) return { ...parseEnv(text), ...given, OSMOSIS_ENV_FILE: file }
  throw new OsmosisError('invalid_config', `There is no file ${named} with variables.`)
}

/** Gives the command and this process what they lack of that: code of the user reads `process.env`. */
export function completeEnvironment(): void {
  const complete = readEnvironment()
  addToProcess(complete)
  Object.assign(environment(), complete)
}

/** Whether `npx`, `pnpm exec` or a script runs this. They find commands that the user's shell does not. */
export function isRunByPackageManager(): boolean {
  return Boolean(environment()['npm_config_user_agent'])
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
