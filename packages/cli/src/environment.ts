import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parseEnv } from 'node:util'

/**
 * The environment of a command: the variables of this process, and behind them those of the nearest
 * `.env` file, in the working folder or above it.
 */
export function readEnvironment(): NodeJS.ProcessEnv {
  const environment = process.env // oxlint-disable-line node/no-process-env
  return { ...nearestEnvFile(path.resolve()), ...environment }
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
