import { copyFile, mkdir, readFile, rm, stat } from 'node:fs/promises'
import path from 'node:path'

import { isJsonObject } from '@osmosis/core/http'
import { writeFileAtomically } from '@osmosis/protocol/files'

import { homeFolder } from '../../command/command-context.ts'
import { textOf, type JsonObject } from '../client/answers.ts'
import { PlatformError } from '../client/platform-error.ts'
import { defaultPlatformUrl } from '../client/settings.ts'

/** A login in the credentials file. */
export interface StoredLogin {
  /** Undefined when the token is in the keyring. */
  readonly token: string | undefined
  /** ISO time with its zone. */
  readonly expiresAt: string
  readonly user: JsonObject
  readonly tokenId: string | undefined
  readonly store: 'file' | 'keyring'
  /** Account of the token in the keyring. */
  readonly account: string | undefined
}

/** Reads and writes the logins of this user, in the file that all command lines of Osmosis share. */
export class CredentialsFile {
  readonly path: string

  constructor(file = path.join(homeFolder(), '.config', 'osmosis', 'credentials.json')) {
    this.path = file
  }

  /**
   * The login for a platform; undefined when there is none.
   *
   * @throws PlatformError with code `CREDENTIALS_UNAVAILABLE` for a file that cannot be read,
   * `CREDENTIALS_PARSE_FAILED` or `CREDENTIALS_VERSION_CHANGED` for one that is invalid
   */
  async find(url: string): Promise<StoredLogin | undefined> {
    const credentials = await this.#read()
    return credentials && findLogin(credentials, url, this.path)
  }

  /**
   * Removes what keeps a new login for a platform from being saved: a file, or a record, that cannot be read. Logins for other
   * platforms stay. Resolves with the name of a copy of the file as it was, or undefined where nothing had to be removed.
   *
   * @throws PlatformError with code `CREDENTIALS_UNAVAILABLE` or `CREDENTIALS_VERSION_CHANGED`
   */
  async removeUnreadable(url: string): Promise<string | undefined> {
    let platforms: JsonObject = {}
    try {
      const credentials = await this.#read()
      if (credentials === undefined) return undefined
      const hasPlatforms = isJsonObject(credentials['platforms'])
      if (hasPlatforms) platforms = credentials['platforms'] as JsonObject
      // A file without platforms holds a login for the default one, and a new login for another platform keeps it.
      findLogin(credentials, hasPlatforms ? url : defaultPlatformUrl, this.path)
      return undefined
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error
      if (error.platformCode !== 'CREDENTIALS_PARSE_FAILED') throw error
      const copy = await freeName(`${this.path}.bak`)
      await copyFile(this.path, copy)
      const { [url]: _unreadable, ...others } = platforms
      await this.#keepOnly(others)
      return copy
    }
  }

  /** Saves a login for a platform, replacing an earlier one. */
  async save(url: string, login: StoredLogin): Promise<void> {
    await mkdir(path.dirname(this.path), { recursive: true, mode: 0o700 })
    await this.#write({ ...(await this.#platforms()), [url]: toRecord(url, login) })
  }

  /** Removes the login for a platform. */
  async remove(url: string): Promise<void> {
    const { [url]: _removed, ...others } = await this.#platforms()
    await this.#keepOnly(others)
  }

  async #keepOnly(platforms: JsonObject): Promise<void> {
    if (Object.keys(platforms).length > 0) await this.#write(platforms)
    else await rm(this.path, { force: true })
  }

  /** The records by platform. A login in an older format becomes that of the default platform. */
  async #platforms(): Promise<JsonObject> {
    const credentials = await this.#read()
    if (credentials === undefined) return {}
    if (isJsonObject(credentials['platforms'])) return credentials['platforms']
    const older = findLogin(credentials, defaultPlatformUrl, this.path)
    return older ? { [defaultPlatformUrl]: toRecord(defaultPlatformUrl, older) } : {}
  }

  async #write(platforms: JsonObject): Promise<void> {
    const text = `${JSON.stringify({ version: 2, platforms }, null, 2)}\n`
    await writeFileAtomically(this.path, text, { mode: 0o600 })
  }

  async #read(): Promise<JsonObject | undefined> {
    let text: string
    try {
      text = await readFile(this.path, 'utf8')
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      if (code === 'ENOENT') return undefined
      throw new PlatformError(
        'CREDENTIALS_UNAVAILABLE',
        `The login in ${this.path} cannot be used: reading it failed with ${code}.`,
        { cause },
      )
    }
    try {
      const json: unknown = JSON.parse(text)
      if (isJsonObject(json)) return json
    } catch {
      // The error of the parser quotes the file, which contains tokens.
    }
    throw unreadable(this.path, 'it is not a JSON object')
  }
}

function toRecord(url: string, login: StoredLogin): JsonObject {
  const { token, expiresAt, user, tokenId, account } = login
  return {
    version: 2,
    token_type: 'Bearer',
    expires_at: expiresAt,
    created_at: new Date().toISOString(),
    user,
    ...(tokenId !== undefined && { token_id: tokenId }),
    platform_url: url,
    token_store: login.store,
    ...(account !== undefined && { keyring_account: account }),
    ...(token !== undefined && { access_token: token }),
  }
}

async function freeName(name: string): Promise<string> {
  for (let number = 0; ; number += 1) {
    const candidate = number === 0 ? name : `${name}.${number}`
    const taken = await stat(candidate).catch(() => undefined)
    if (taken === undefined) return candidate
  }
}

/**
 * The login for a platform in a credentials file, in any of its forms: one record for each platform
 * (version 2), one record for all, or one for each workspace (version 1). The older two do not name
 * their platform, so they are for the default one.
 *
 * @throws PlatformError with code `CREDENTIALS_PARSE_FAILED` or `CREDENTIALS_VERSION_CHANGED`; it
 * repeats only names and dates
 */
function findLogin(credentials: JsonObject, url: string, file: string): StoredLogin | undefined {
  const { version, platforms, workspaces } = credentials
  const isFlat = 'access_token' in credentials || 'token_store' in credentials
  if (!isFlat && version !== undefined && version !== 1 && version !== 2) {
    throw new PlatformError(
      'CREDENTIALS_VERSION_CHANGED',
      `The login in ${file} cannot be used: its version is ${typeof version === 'number' ? version : 'no number'}, and this command reads 1 and 2. Upgrade osmosis, or set OSMOSIS_TOKEN to a login token of the platform.`,
    )
  }
  if (isJsonObject(platforms) && version === 2) {
    return Object.hasOwn(platforms, url) ? toLogin(platforms[url], url, file) : undefined
  }
  if (!isFlat && version !== 1) throw unreadable(file, 'it has no version 2 with platforms')
  if (url !== defaultPlatformUrl) return undefined
  if (isFlat) return toLogin(credentials, url, file)
  const { active_workspace: name } = credentials
  if (name === null || name === undefined) return undefined
  if (typeof name !== 'string' || !isJsonObject(workspaces)) {
    throw unreadable(file, 'it should have workspaces, and the name of the active one')
  }
  return Object.hasOwn(workspaces, name) ? toLogin(workspaces[name], name, file) : undefined
}

function toLogin(record: unknown, name: string, file: string): StoredLogin {
  if (!isJsonObject(record)) throw unreadable(file, `the login for ${name} is not an object`)
  const store = record['token_store'] === 'keyring' ? 'keyring' : 'file'
  const token = textOf(record['access_token'])
  if (store === 'file' && token === undefined) {
    throw unreadable(file, `the login for ${name} has no access_token`)
  }
  const expiresAt = textOf(record['expires_at'])
  if (expiresAt === undefined || instant(expiresAt) === undefined) {
    throw unreadable(file, `the login for ${name} has no expires_at with a date, a time and a zone`)
  }
  const user = isJsonObject(record['user']) ? record['user'] : {}
  return {
    token: store === 'file' ? token : undefined,
    expiresAt,
    user,
    store,
    tokenId: textOf(record['token_id']),
    account: textOf(record['keyring_account']),
  }
}

const loginAdvice =
  'Log in with `osmosis platform login`, or set OSMOSIS_TOKEN to a login token of the platform.'

/** An error for a missing or expired login. */
export function loggedOut(why: string): PlatformError {
  return new PlatformError('AUTH_REQUIRED', `Not logged in: ${why}. ${loginAdvice}`)
}

/** An error for a file without a readable login. */
function unreadable(file: string, why: string): PlatformError {
  return new PlatformError(
    'CREDENTIALS_PARSE_FAILED',
    `The login in ${file} cannot be used: ${why}. ${loginAdvice}`,
  )
}

// A time without a zone is ambiguous, so it is rejected.
const zonedTime = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)$/i

/** Milliseconds since 1970; undefined for what is not a time with its zone. */
export function instant(text: string): number | undefined {
  const time = zonedTime.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}
