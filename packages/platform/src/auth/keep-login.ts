import { errorMessage } from '@osmosis/core'

import type { PlatformClient } from '../client.ts'
import { PlatformError } from '../platform-error.ts'
import type { Environment } from '../settings.ts'
import type { CredentialsFile } from './credentials-file.ts'
import { revokeToken, type Identity } from './identity.ts'
import type { StoredLogin } from './stored-login.ts'

/** Something that was left undone, and does not undo what was done. */
export interface LoginWarning {
  readonly code: 'KEYRING_CLEANUP_FAILED' | 'TOKEN_REVOKE_FAILED' | 'CREDENTIALS_MOVED'
  readonly message: string
}

/**
 * Finds out, before anybody is asked to log in, whether the login could be kept. Resolves with the
 * login that it would replace.
 *
 * @throws PlatformError with code `KEYRING_UNAVAILABLE` or `CREDENTIALS_VERSION_CHANGED`
 */
export async function prepareStore(
  file: CredentialsFile,
  url: string,
  environment: Environment,
  warn: (warning: LoginWarning) => void,
): Promise<StoredLogin | undefined> {
  if (environment['OSMOSIS_TOKEN_STORE'] === 'keyring') {
    throw new PlatformError(
      'KEYRING_UNAVAILABLE',
      `OSMOSIS_TOKEN_STORE asks for the keyring of the system, which this command line does not use: logins are kept in ${file.path}.`,
    )
  }
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
 * Keeps a login and makes the one before it worthless.
 *
 * @param clientFor - gives a client that presents a token
 * @throws PlatformError with code `CREDENTIALS_UNAVAILABLE` when it cannot be written; a token that
 * nobody had before has been revoked then
 */
export async function keepLogin(
  login: Identity & { readonly token: string; readonly isNew: boolean },
  options: {
    readonly file: CredentialsFile
    readonly url: string
    readonly earlier: StoredLogin | undefined
    readonly clientFor: (token: string) => PlatformClient
    readonly warn: (warning: LoginWarning) => void
  },
): Promise<void> {
  const { file, url, earlier, clientFor, warn } = options
  const { token, expiresAt, user, tokenId } = login
  try {
    await file.save(url, { token, expiresAt, user, tokenId, store: 'file' })
  } catch (cause) {
    if (login.isNew && tokenId !== undefined) await tryToRevoke(clientFor(token), tokenId, warn)
    throw new PlatformError(
      'CREDENTIALS_UNAVAILABLE',
      `The login cannot be kept in ${file.path}: ${errorMessage(cause)}`,
      { cause },
    )
  }
  if (earlier === undefined) return
  if (earlier.tokenId !== undefined && earlier.tokenId !== tokenId) {
    await tryToRevoke(clientFor(earlier.token ?? token), earlier.tokenId, warn)
  }
  if (earlier.store === 'keyring') warn(keyringLeft(url))
}

/** Makes the login for a platform worthless and forgets it. */
export async function forgetLogin(
  login: StoredLogin,
  options: {
    readonly file: CredentialsFile
    readonly url: string
    readonly clientFor: (token: string) => PlatformClient
    readonly warn: (warning: LoginWarning) => void
  },
): Promise<void> {
  const { file, url, clientFor, warn } = options
  if (login.token !== undefined && login.tokenId !== undefined) {
    await tryToRevoke(clientFor(login.token), login.tokenId, warn)
  } else {
    const why = login.token === undefined ? 'only the keyring has it' : 'its id is not known'
    warn({ code: 'TOKEN_REVOKE_FAILED', message: `The token was not revoked: ${why}.` })
  }
  await file.remove(url)
  if (login.store === 'keyring') warn(keyringLeft(url))
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

function keyringLeft(url: string): LoginWarning {
  return {
    code: 'KEYRING_CLEANUP_FAILED',
    message: `The keyring of the system still has a token for ${url}, under the service osmosis-cli: remove it there.`,
  }
}
