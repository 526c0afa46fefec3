import { isJsonObject, textOf, type JsonObject } from '../json-object.ts'
import { PlatformError } from '../platform-error.ts'
import { defaultPlatformUrl } from '../platform-url.ts'

/** A login as it is kept in the credentials file. */
export interface StoredLogin {
  /** Undefined when the keyring has it. */
  readonly token: string | undefined
  /** ISO time with its zone. */
  readonly expiresAt: string
  readonly user: JsonObject
  readonly tokenId: string | undefined
  readonly store: 'file' | 'keyring'
  /** What the keyring has the token under, if it has it. */
  readonly account: string | undefined
}

const loginAdvice =
  'Log in with `osmosis auth login`, or set OSMOSIS_TOKEN to a login token of the platform.'

/** Nobody is logged in (any more). */
export function loggedOut(why: string): PlatformError {
  return new PlatformError('AUTH_REQUIRED', `Not logged in: ${why}. ${loginAdvice}`)
}

/** A file that no login can be read from. */
export function unreadable(file: string, why: string): PlatformError {
  return new PlatformError(
    'CREDENTIALS_PARSE_FAILED',
    `The login in ${file} cannot be used: ${why}. ${loginAdvice}`,
  )
}

/**
 * The login for a platform in a credentials file, in any of its forms: one record for each platform
 * (version 2), one record for all, or one for each workspace (version 1). The older two do not say
 * which platform they are for, so they are for the default one.
 *
 * @throws PlatformError with code `CREDENTIALS_PARSE_FAILED` or `CREDENTIALS_VERSION_CHANGED`; it
 * repeats names and dates only
 */
export function findLogin(
  credentials: JsonObject,
  url: string,
  file: string,
): StoredLogin | undefined {
  const { version, platforms, workspaces } = credentials
  if (isJsonObject(platforms)) {
    if (version !== 2) throw otherVersion(file)
    if (!Object.hasOwn(platforms, url)) return undefined
    return toLogin(platforms[url], url, file)
  }
  const isFlat = 'access_token' in credentials || 'token_store' in credentials
  const flat = isFlat ? credentials : undefined
  if (flat === undefined && version !== 1) throw otherVersion(file)
  if (url !== defaultPlatformUrl) return undefined
  if (flat !== undefined) return toLogin(flat, url, file)
  const { active_workspace: name } = credentials
  if (name === null || name === undefined) return undefined
  if (typeof name !== 'string' || !isJsonObject(workspaces)) {
    throw unreadable(file, 'it should have workspaces, and the name of the active one')
  }
  return Object.hasOwn(workspaces, name) ? toLogin(workspaces[name], name, file) : undefined
}

function otherVersion(file: string): PlatformError {
  return new PlatformError(
    'CREDENTIALS_VERSION_CHANGED',
    `The login in ${file} cannot be used: it is of another version than 1 and 2. Upgrade osmosis, or set OSMOSIS_TOKEN to a login token of the platform.`,
  )
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

// A time without its zone is no instant, and is not guessed at.
const zonedTime = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)$/i

/** Milliseconds since 1970; undefined for what is not a time with its zone. */
export function instant(text: string): number | undefined {
  const time = zonedTime.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}
