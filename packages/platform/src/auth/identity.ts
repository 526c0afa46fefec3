import type { PlatformClient } from '../client.ts'
import { isJsonObject, textOf, type JsonObject } from '../json-object.ts'
import { isScopeError, PlatformError } from '../platform-error.ts'
import { instant } from './stored-login.ts'

/** What the platform says about a token. */
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

/** Reads what the platform says about a token. */
export function toIdentity(answer: JsonObject): Identity {
  const { user, expires_at: expires, token_id: tokenId, workspace } = answer
  if (!isJsonObject(user)) {
    throw new PlatformError('PLATFORM_ERROR', 'The platform did not say whose login this is.', {
      status: 200,
    })
  }
  const expiresAt = textOf(expires) ?? new Date(Date.now() + defaultLifetimeMs).toISOString()
  if (Date.now() >= (instant(expiresAt) ?? 0)) {
    throw new PlatformError(
      'PLATFORM_ERROR',
      `The platform gave a login that ends at ${expiresAt}, which is over or has no zone.`,
      { status: 200 },
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
 * Asks the platform whose token a client has. A workspace that the platform refuses does not hide
 * the answer: then it is asked without.
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

/** Makes a token worthless; one that the platform refuses already is. */
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
