import { PlatformError } from '../platform-error.ts'
import type { PlatformSettings } from '../settings.ts'
import { LoginStore } from './login-store.ts'
import { instant, loggedOut, type StoredLogin } from './stored-login.ts'

/** Who speaks to the platform. */
export interface ActiveLogin {
  readonly token: string
  /** The variable `OSMOSIS_TOKEN`, or where a login is kept. */
  readonly source: 'environment' | 'keyring' | 'file'
  /** What the credentials file says of it; undefined for a token of the environment. */
  readonly stored: StoredLogin | undefined
}

/**
 * The login for the platform of these settings: `OSMOSIS_TOKEN`, else the one that is kept. What is
 * kept is only read, whatever is wrong with it.
 *
 * @throws PlatformError with code `AUTH_REQUIRED` when nobody is logged in (any more),
 * `KEYRING_UNAVAILABLE` when the token is in a keyring that cannot be used, or a code of
 * {@link CredentialsFile}
 */
export async function activeLogin(
  { url, environmentToken }: PlatformSettings,
  store = new LoginStore(),
): Promise<ActiveLogin> {
  if (environmentToken !== undefined) {
    return { token: environmentToken, source: 'environment', stored: undefined }
  }
  const stored = await store.file.find(url)
  if (stored === undefined) throw loggedOut(`${store.file.path} has no login for ${url}`)
  if (Date.now() >= (instant(stored.expiresAt) ?? 0)) {
    throw loggedOut(`the login for ${url} has expired on ${stored.expiresAt}`)
  }
  const token = await keptToken(store, url, stored)
  if (token === undefined) {
    throw loggedOut(`the keyring of the system does not have the token for ${url} any more`)
  }
  return { token, source: stored.store, stored }
}

async function keptToken(
  store: LoginStore,
  url: string,
  login: StoredLogin,
): Promise<string | undefined> {
  try {
    return await store.token(url, login)
  } catch (error) {
    if (!(error instanceof PlatformError)) throw error
    throw new PlatformError(
      'KEYRING_UNAVAILABLE',
      `The login for ${url} is in the keyring of the system. ${error.message}. Log in again with \`osmosis auth login\`, or set OSMOSIS_TOKEN to a login token of the platform.`,
      { cause: error },
    )
  }
}
