import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parseEnv } from 'node:util'

/**
 * The variables that settings are read from: those of the process, before those of a file `.env`
 * in the current folder. Names are in upper case. Nothing else in this package looks at the
 * environment.
 */
export function readSettingsEnvironment(): Readonly<Record<string, string | undefined>> {
  const variables = new Map<string, string | undefined>()
  // oxlint-disable-next-line node/no-process-env
  for (const source of [readEnvFile(), process.env]) {
    for (const [name, value] of Object.entries(source)) variables.set(name.toUpperCase(), value)
  }
  return Object.fromEntries(variables)
}

function readEnvFile(): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(path.resolve('.env'), 'utf8'))
  } catch {
    // Most folders have none.
    return {}
  }
}
