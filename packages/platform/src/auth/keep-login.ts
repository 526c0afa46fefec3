import { errorMessage } from '@osmosis/core'

import type { PlatformClient } from '../client.ts'
import { PlatformError } from '../platform-error.ts'
import { revokeToken, type Identity } from './identity.ts'
import type { LoginStore, LoginWarning } from './login-store.ts'
import type { StoredLogin } from './stored-login.ts'

/**
 * Finds out, before anybody is asked to log in, whether the login could be kept. Resolves with the
 * login that it would replace.
 *
 * @throws PlatformError with code `KEYRING_UNAVAILABLE`, `CREDENTIALS_UNAVAILABLE` or
 * `CREDENTIALS_VERSION_CHANGED`
 */
export async function prepareStore(
  store: LoginStore,
  url: string,
  warn: (warning: LoginWarning) => void,
): Promise<StoredLogin | undefined> {
  await store.check(url)
  const { file } = store
  const moved = await file.moveCorrupt()
  if (moved !== undefined) {
    warn({
      code: 'CREDENTIALS_MOVED',
      message: `${file.path} could not be read; it is ${moved} now.`,
    })
  }
  return file.find(url).catch(() => undefined)
}

/**
 * Keeps a login and makes the one before it worthless. Resolves with where the token is.
 *
 * @throws PlatformError with code `CREDENTIALS_UNAVAILABLE` or `KEYRING_UNAVAILABLE` when it cannot
 * be kept; a token that nobody had before has been revoked then
 */
export async function keepLogin(
  login: Identity & { readonly token: string; readonly isNew: boolean },
  options: {
    readonly store: LoginStore
    readonly url: string
    readonly earlier: StoredLogin | undefined
    /** Gives a client that presents a token. */
    readonly clientFor: (token: string) => PlatformClient
    readonly warn: (warning: LoginWarning) => void
  },
): Promise<'keyring' | 'file'> {
  const { store, url, earlier, clientFor, warn } = options
  const { token, tokenId } = login
  const kept = await store.save(url, login, earlier, warn).catch(async (error: unknown) => {
    if (login.isNew && tokenId !== undefined) await tryToRevoke(clientFor(token), tokenId, warn)
    throw error
  })
  if (earlier === undefined) return kept.store
  if (earlier.tokenId !== undefined && earlier.tokenId !== tokenId) {
    await tryToRevoke(clientFor(earlier.token ?? token), earlier.tokenId, warn)
  }
  await store.clean(url, earlier, kept, warn)
  return kept.store
}

/** Makes the login for a platform worthless and forgets it. */
export async function forgetLogin(
  login: StoredLogin,
  options: {
    readonly store: LoginStore
    readonly url: string
    readonly clientFor: (token: string) => PlatformClient
    readonly warn: (warning: LoginWarning) => void
  },
): Promise<void> {
  const { store, url, clientFor, warn } = options
  const token = await store.token(url, login).catch((error: unknown) => {
    if (!(error instanceof PlatformError)) throw error
    return undefined
  })
  if (token !== undefined && login.tokenId !== undefined) {
    await tryToRevoke(clientFor(token), login.tokenId, warn)
  } else {
    const why = token === undefined ? 'the keyring does not give it' : 'its id is not known'
    warn({ code: 'TOKEN_REVOKE_FAILED', message: `The token was not revoked: ${why}.` })
  }
  await store.file.remove(url)
  await store.clean(url, login, undefined, warn)
}

async function tryToRevoke(
  client: PlatformClient,
  tokenId: string,
  warn: (warning: LoginWarning) => void,
): Promise<void> {
  try {
    await revokeToken(client, tokenId)
  } catch (error) {
    warn({
      code: 'TOKEN_REVOKE_FAILED',
      message: `The token was not revoked: ${errorMessage(error)}`,
    })
  }
}
