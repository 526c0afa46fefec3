import { isJsonObject } from '@osmosis/core/http'
import type { PlatformClient } from '../client.ts'
import { textOf, type JsonObject } from '../answers.ts'
import { PlatformError, unexpectedAnswer, isScopeError } from '../platform-error.ts'
import { defaultPlatformUrl } from '../settings.ts'

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

const loginAdvice =
  'Log in with `osmosis platform login`, or set OSMOSIS_TOKEN to a login token of the platform.'

/** An error for a missing or expired login. */
export function loggedOut(why: string): PlatformError {
  return new PlatformError('AUTH_REQUIRED', `Not logged in: ${why}. ${loginAdvice}`)
}

/** An error for a file without a readable login. */
export function unreadable(file: string, why: string): PlatformError {
  return new PlatformError(
    'CREDENTIALS_PARSE_FAILED',
    `The login in ${file} cannot be used: ${why}. ${loginAdvice}`,
  )
}

/**
 * The login for a platform in a credentials file, in any of its forms: one record for each platform
 * (version 2), one record for all, or one for each workspace (version 1). The older two do not name
 * their platform, so they are for the default one.
 *
 * @throws PlatformError with code `CREDENTIALS_PARSE_FAILED` or `CREDENTIALS_VERSION_CHANGED`; it
 * repeats only names and dates
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
    `The login in ${file} cannot be used: its version is neither 1 nor 2. Upgrade osmosis, or set OSMOSIS_TOKEN to a login token of the platform.`,
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

// A time without a zone is ambiguous, so it is rejected.
const zonedTime = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)$/i

/** Milliseconds since 1970; undefined for what is not a time with its zone. */
export function instant(text: string): number | undefined {
  const time = zonedTime.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}

/** The user and the expiry of a token, as the platform knows them. */
export interface Identity {
  /** With `id`, `email` and perhaps `name`. */
  readonly user: JsonObject
  /** ISO time with its zone. */
  readonly expiresAt: string
  readonly tokenId: string | undefined
  /** With `id`, `name` and `role`. */
  readonly workspace: JsonObject | null
}

const defaultLifetimeMs = 90 * 24 * 60 * 60 * 1000

/** Reads the user and the expiry of a token from an answer. */
export function toIdentity(answer: JsonObject): Identity {
  const { user, expires_at: expires, token_id: tokenId, workspace } = answer
  if (!isJsonObject(user)) {
    throw unexpectedAnswer('The platform did not name the user of this login.')
  }
  const expiresAt = textOf(expires) ?? new Date(Date.now() + defaultLifetimeMs).toISOString()
  if (Date.now() >= (instant(expiresAt) ?? 0)) {
    throw unexpectedAnswer(
      `The platform gave a login that expires at ${expiresAt}, which is in the past or has no time zone.`,
    )
  }
  return {
    user,
    expiresAt,
    tokenId: textOf(tokenId),
    workspace: isJsonObject(workspace) ? workspace : null,
  }
}

/**
 * Requests the user of a client's token. If the platform refuses the workspace, the request is repeated
 * without it.
 */
export async function verifyLogin(client: PlatformClient): Promise<Identity> {
  try {
    return toIdentity(await client.request(['verify']))
  } catch (error) {
    if (!isScopeError(error)) throw error
    return toIdentity(await client.request(['verify'], { unscoped: true }))
  }
}

const revokeTimeoutMs = 5000

/** Revokes a token; one that the platform refuses needs no revocation. */
export async function revokeToken(client: PlatformClient, tokenId: string): Promise<void> {
  try {
    await client.request(['tokens', tokenId], {
      method: 'DELETE',
      timeoutMs: revokeTimeoutMs,
      unscoped: true,
    })
  } catch (error) {
    if (!(error instanceof PlatformError) || error.platformCode !== 'AUTH_REQUIRED') throw error
  }
}
