import { isJsonObject, wait } from '@osmosis/core/http'

import { textOf, type JsonObject } from '../client/answers.ts'
import type { PlatformClient } from '../client/platform-client.ts'
import { isScopeError, PlatformError, unexpectedAnswer } from '../client/platform-error.ts'
import { instant } from './credentials-file.ts'

/** What the user needs to approve a login. */
interface DeviceCode {
  /** Code to enter, or to compare. */
  readonly userCode: string
  /** Page on which to enter it. */
  readonly url: string
  /** Page that already has the code, else `url`. */
  readonly completeUrl: string
}

const longestSeconds = 900
const defaultIntervalSeconds = 5
const longestIntervalSeconds = 30

/**
 * Lets the user approve a login on a page of the platform, and then resolves with the token.
 *
 * @throws PlatformError with code `AUTH_REQUIRED` when it is denied or not approved in time, and
 * `PLATFORM_ERROR` for a platform without such logins
 */
export async function loginByDevice(
  client: PlatformClient,
  {
    deviceName,
    onCode,
    signal,
    pause = wait,
  }: {
    /** Name of the login on the platform. */
    readonly deviceName: string
    /** Shows the code, before the first poll. */
    readonly onCode: (code: DeviceCode) => void
    readonly signal: AbortSignal
    /** Waits this many milliseconds between polls; replaced in tests. */
    readonly pause?: typeof wait
  },
): Promise<Identity & { readonly token: string }> {
  const start = await authorize(client, deviceName)
  const userCode = needed(start, 'user_code')
  const url = needed(start, 'verification_uri')
  const body = { device_code: needed(start, 'device_code') }
  onCode({ userCode, url, completeUrl: textOf(start['verification_uri_complete']) ?? url })

  let interval = seconds(start['interval'], defaultIntervalSeconds)
  const limit = Math.min(longestSeconds, seconds(start['expires_in'], longestSeconds))
  for (let waited = 0; waited + interval <= limit;) {
    await pause(interval * 1000, signal)
    waited += interval
    const answer = await poll(client, body, (limit - waited) * 1000)
    const token = textOf(answer['token'])
    if (token !== undefined) return { ...toIdentity(answer), token }
    if (answer['error'] === 'slow_down') {
      interval = Math.max(interval, Math.min(interval + 5, longestIntervalSeconds))
    } else if (answer['error'] !== 'authorization_pending') throw refused(answer['error'])
  }
  throw refused('expired_token')
}

async function authorize(client: PlatformClient, deviceName: string): Promise<JsonObject> {
  try {
    return await client.request(['device', 'authorize'], { method: 'POST', body: { deviceName } })
  } catch (error) {
    if (!(error instanceof PlatformError) || error.platformCode !== 'NOT_FOUND') throw error
    throw new PlatformError(
      'PLATFORM_ERROR',
      `${client.url} does not support logins by a browser: check OSMOSIS_PLATFORM_URL.`,
      { details: error.details, status: 404 },
    )
  }
}

const pollTimeoutMs = 30_000
/** Errors that end a login, whatever the body of the answer. */
const final = new Set<unknown>(['UPGRADE_REQUIRED', 'RATE_LIMITED'])

/** A refusal has its reason in `error`; a poll that times out is pending. */
async function poll(client: PlatformClient, body: JsonObject, leftMs: number): Promise<JsonObject> {
  try {
    return await client.request(['device', 'token'], {
      method: 'POST',
      body,
      timeoutMs: Math.max(1000, Math.min(pollTimeoutMs, leftMs)),
    })
  } catch (error) {
    if (!(error instanceof PlatformError) || final.has(error.platformCode)) throw error
    if (error.status === undefined) {
      const isLate = (error.cause as Error | undefined)?.name === 'TimeoutError'
      if (isLate) return { error: 'authorization_pending' }
      throw error
    }
    if (error.status >= 500) throw error
    return { error: error.message }
  }
}

function refused(why: unknown): PlatformError {
  if (why === 'access_denied') return new PlatformError('AUTH_REQUIRED', 'The login was denied.')
  if (why === 'expired_token') {
    return new PlatformError('AUTH_REQUIRED', 'The login was not approved in time: start again.')
  }
  const said = textOf(why) ?? 'nothing'
  return unexpectedAnswer(`The platform answered a login with: ${said}`)
}

function needed(answer: JsonObject, key: string): string {
  const text = textOf(answer[key])
  if (text !== undefined) return text
  throw unexpectedAnswer(`The platform began a login without ${key}.`)
}

function seconds(value: unknown, otherwise: number): number {
  return typeof value === 'number' && value > 0 ? value : otherwise
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
function toIdentity(answer: JsonObject): Identity {
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
