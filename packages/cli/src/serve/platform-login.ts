import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'

const tokenVariable = 'OSMOSIS_TOKEN'
const whatToDo = `Log in with \`osmosis login\` of the Python SDK, or set ${tokenVariable} to a login token.`

/**
 * The login token of the platform: that of the environment, else that of the active workspace in
 * the file that a login leaves behind. The file is only read, whatever is wrong with it, and no
 * error repeats anything of it but names and dates.
 *
 * @throws OsmosisError with code `unauthorized` when nobody is logged in (any more),
 * `invalid_config` for a file that cannot be read
 */
export async function readLoginToken(environment: NodeJS.ProcessEnv): Promise<string> {
  const token = environment[tokenVariable]?.trim()
  if (token) return token
  const file = path.join(homedir(), '.config', 'osmosis', 'credentials.json')
  return activeToken(parseCredentials(await readCredentials(file), file), file)
}

async function readCredentials(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === 'ENOENT') throw loggedOut(`there is no ${file}`)
    throw unreadable(file, `reading it failed with ${code}`)
  }
}

interface Credentials {
  readonly version?: unknown
  readonly active_workspace?: unknown
  readonly workspaces?: unknown
}

interface Login {
  readonly access_token?: unknown
  readonly expires_at?: unknown
}

function parseCredentials(text: string, file: string): Credentials {
  try {
    const json: unknown = JSON.parse(text)
    if (isObject(json)) return json
  } catch {
    // What the parser says quotes the file, tokens included.
  }
  throw unreadable(file, 'it is no JSON object')
}

function activeToken(credentials: Credentials, file: string): string {
  const { version, active_workspace: name, workspaces } = credentials
  if (version !== 1) {
    throw unreadable(file, 'it is of another version than 1')
  }
  if (name === null || name === undefined) throw loggedOut(`${file} names no active workspace`)
  if (typeof name !== 'string' || !isObject(workspaces)) {
    throw unreadable(file, 'it should have workspaces, and the name of the active one')
  }
  const login = Object.hasOwn(workspaces, name) ? (workspaces[name] as Login) : undefined
  if (!isObject(login)) throw loggedOut(`${file} has no login for its active workspace ${name}`)
  const { access_token: token, expires_at: expiresAt } = login
  if (typeof token !== 'string' || token === '') {
    throw unreadable(file, `the login for ${name} has no access_token`)
  }
  if (Date.now() >= instant(expiresAt, name, file)) {
    throw loggedOut(`the login for ${name} has expired on ${String(expiresAt)}`)
  }
  return token
}

// A time without its zone is no instant, and is not guessed at.
const zonedTime = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)$/i

/** Milliseconds since 1970. */
function instant(text: unknown, name: string, file: string): number {
  const time = typeof text === 'string' && zonedTime.test(text) ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(time)) return time
  throw unreadable(file, `the login for ${name} has no expires_at with a date, a time and a zone`)
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function loggedOut(why: string): OsmosisError {
  return new OsmosisError('unauthorized', `Not logged in: ${why}. ${whatToDo}`)
}

function unreadable(file: string, why: string): OsmosisError {
  return new OsmosisError(
    'invalid_config',
    `The login in ${file} cannot be used: ${why}. ${whatToDo}`,
  )
}
