import { PlatformError } from '../platform-error.ts'
import type { PlatformSettings } from '../settings.ts'
import { CredentialsFile } from './credentials-file.ts'
import { instant, loggedOut, type StoredLogin } from './stored-login.ts'

/** Who speaks to the platform. */
export interface ActiveLogin {
  readonly token: string
  /** The variable `OSMOSIS_TOKEN`, or the credentials file. */
  readonly source: 'environment' | 'file'
  /** What the file says of it; undefined for a token of the environment. */
  readonly stored: StoredLogin | undefined
}

/**
 * The login for the platform of these settings: `OSMOSIS_TOKEN`, else the one in the credentials
 * file. The file is only read, whatever is wrong with it.
 *
 * @throws PlatformError with code `AUTH_REQUIRED` when nobody is logged in (any more),
 * `KEYRING_UNAVAILABLE` when only a keyring has the token, or a code of {@link CredentialsFile}
 */
export async function activeLogin(
  { url, environmentToken }: PlatformSettings,
  file = new CredentialsFile(),
): Promise<ActiveLogin> {
  if (environmentToken !== undefined) {
    return { token: environmentToken, source: 'environment', stored: undefined }
  }
  const stored = await file.find(url)
  if (stored === undefined) throw loggedOut(`${file.path} has no login for ${url}`)
  if (Date.now() >= (instant(stored.expiresAt) ?? 0)) {
    throw loggedOut(`the login for ${url} has expired on ${stored.expiresAt}`)
  }
  if (stored.token === undefined) {
    throw new PlatformError(
      'KEYRING_UNAVAILABLE',
      `The login for ${url} is in the keyring of the system, which this command line does not read. Log in again with \`osmosis auth login\`, which keeps the token in ${file.path}.`,
    )
  }
  return { token: stored.token, source: 'file', stored }
}
