import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { buffer as readBytes } from 'node:stream/consumers'
import { parseEnv } from 'node:util'

import { errorMessage } from '@osmosis/core'

import {
  addToProcess,
  environment,
  resolvePath,
  workingFolder,
  displayPath,
  standardInput,
} from './command-context.ts'
import { invalid } from './wrong-use.ts'

/**
 * The environment of a command: its variables, and as defaults those of the file that
 * `OSMOSIS_ENV_FILE` names, else of the nearest `.env` in the working folder or above it.
 *
 * @throws OsmosisError with code `invalid_config` when the named file cannot be read
 */
export function readEnvironment(): NodeJS.ProcessEnv {
  const given = environment()
  const named = given['OSMOSIS_ENV_FILE'] || undefined
  const variables = readEnvFile(named)
  if (variables === undefined) throw invalid(`The environment file ${named} does not exist.`)
  // Absolute for processes that are started in another folder.
  return { ...variables, ...given, ...(named && { OSMOSIS_ENV_FILE: resolvePath(named) }) }
}

/** The variables of a file, by default of the nearest `.env`; undefined when the file cannot be read. */
export function readEnvFile(file: string | undefined): NodeJS.Dict<string> | undefined {
  if (file === undefined) return nearestEnvFile(workingFolder())
  const text = readIfThere(resolvePath(file))
  return text === undefined ? undefined : parseEnv(text)
}

/**
 * Adds these defaults to the command and to this process, until the command has ended, and returns all variables: a command that
 * loads user code calls it before, because user code reads `process.env`.
 *
 * @throws OsmosisError as {@link readEnvironment}
 */
export function completeEnvironment(): NodeJS.ProcessEnv {
  const complete = readEnvironment()
  addToProcess(complete)
  Object.assign(environment(), complete)
  return complete
}

/** Whether `npx`, `pnpm exec` or a script runs this. They find commands that are not on the user's PATH. */
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
    return decoded(readFileSync(file))
  } catch {
    // A missing or unreadable file is ignored.
    return undefined
  }
}

/** The text of a file without the byte order mark that editors and shells on Windows write, in the encoding that it tells. */
function decoded(bytes: Buffer): string {
  const mark = bytes.subarray(0, 2).toString('latin1')
  const encoding = mark === '\xFF\xFE' ? 'utf-16le' : mark === '\xFE\xFF' ? 'utf-16be' : 'utf-8'
  return new TextDecoder(encoding).decode(bytes)
}

/**
 * Reads the secrets of a dotenv file, or of stdin for `-`: `NAME=value` or `export NAME=value` on a
 * line of its own, with or without a pair of quotes around the value; empty lines and those that
 * begin with `#` are ignored. Errors name the line and never repeat its text.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export async function readSecretsFile(file: string): Promise<ReadonlyMap<string, string>> {
  const secrets = new Map<string, string>()
  for (const [index, line] of (await contentOf(file)).split(/\r?\n/).entries()) {
    const content = line.trim()
    if (content === '' || content.startsWith('#')) continue
    const [, name, value] = /^(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)$/.exec(content) ?? []
    if (name === undefined || value === undefined) {
      throw invalid(`Line ${index + 1} of ${described(file)} is not NAME=value.`)
    }
    secrets.set(name, unquoted(value.trim()))
  }
  return secrets
}

async function contentOf(file: string): Promise<string> {
  try {
    return decoded(
      file === '-' ? await readBytes(standardInput()) : await readFile(displayPath(file)),
    )
  } catch (cause) {
    throw invalid(`Cannot read the secrets from ${described(file)}: ${errorMessage(cause)}`)
  }
}

function unquoted(value: string): string {
  const [quote = ''] = value
  const isQuoted = /["']/.test(quote) && value.length > 1 && value.endsWith(quote)
  return isQuoted ? value.slice(1, -1) : value
}

function described(file: string): string {
  return file === '-' ? 'the standard input' : file
}

/**
 * The values of the secrets that a config requires, from a file or else the environment.
 *
 * @param file - the value of `--secrets-file`
 * @throws OsmosisError with code `invalid_config` that names the secrets without a value
 */
export async function requiredSecrets(
  names: readonly string[],
  file: string | undefined,
  variables: NodeJS.ProcessEnv,
): Promise<Record<string, string>> {
  const written = file === undefined ? new Map<string, string>() : await readSecretsFile(file)
  const secrets: Record<string, string> = {}
  for (const name of names) {
    const value = written.get(name) ?? variables[name]
    if (value) secrets[name] = value
  }
  const missing = names.filter((name) => !Object.hasOwn(secrets, name))
  if (missing.length === 0) return secrets
  throw invalid(
    `The rollout needs secrets that have no value: ${missing.join(', ')}. Set them in the environment or in .env, or pass --secrets-file <file>.`,
  )
}
