import { createHash } from 'node:crypto'

import { errorMessage } from '@osmosis/core'

import { textOf } from '../client/answers.ts'
import type { PlatformClient } from '../client/platform-client.ts'
import { PlatformError } from '../client/platform-error.ts'
import { defaultPlatformUrl, type PlatformSettings } from '../client/settings.ts'
import { instant, loggedOut, type CredentialsFile, type StoredLogin } from './credentials-file.ts'
import { keyringService, type Keyring } from './keyring.ts'
import { revokeToken, type Identity } from './login-requests.ts'

/** How a store of logins calls the platform, and reports problems that do not fail the command. */
interface StoreAccess {
  /** Gives a client that presents a token. */
  readonly clientFor: (token: string) => PlatformClient
  readonly warn: (code: string, message: string) => void
}

/**
 * Stores the login of this user for one platform: the user in the credentials file, and the token in the keyring
 * of the system, or also in the file where there is no keyring.
 */
export class LoginStore {
  readonly file: CredentialsFile
  readonly #settings: PlatformSettings
  readonly #keyring: Keyring
  readonly #access: StoreAccess

  constructor(
    settings: PlatformSettings,
    file: CredentialsFile,
    keyring: Keyring,
    access: StoreAccess,
  ) {
    this.#settings = settings
    this.file = file
    this.#keyring = keyring
    this.#access = access
  }

  /**
   * Checks before a login that it can be saved. Resolves with the login that it replaces.
   *
   * @throws PlatformError with code `KEYRING_UNAVAILABLE` when only the keyring is allowed,
   * `CREDENTIALS_UNAVAILABLE` or `CREDENTIALS_VERSION_CHANGED`
   */
  async prepare(): Promise<StoredLogin | undefined> {
    const { url, tokenStore } = this.#settings
    if (tokenStore === 'keyring') await this.#keyring.get(platformAccount(url))
    await this.removeUnreadable()
    return this.file.find(url).catch(() => undefined)
  }

  /** Removes a login for this platform that cannot be read from the credentials file, so that a new one can be saved. */
  async removeUnreadable(): Promise<void> {
    const { url } = this.#settings
    const copy = await this.file.removeUnreadable(url)
    if (copy === undefined) return
    const message = `${this.file.path} had no readable login for ${url}. The file as it was is now ${copy}.`
    this.#access.warn('CREDENTIALS_MOVED', message)
  }

  /**
   * Saves a login and revokes the earlier one. Resolves with the storage of the token.
   *
   * @param isNew - whether the token was made for this login, so that it is revoked when it cannot be saved
   * @throws PlatformError with code `CREDENTIALS_UNAVAILABLE` or `KEYRING_UNAVAILABLE` when it cannot
   * be saved; the earlier login is unchanged then
   */
  async keep(
    login: Identity & { readonly token: string },
    earlier: StoredLogin | undefined,
    isNew: boolean,
  ): Promise<'keyring' | 'file'> {
    const { token, tokenId } = login
    const saved = await this.#save(login, earlier).catch(async (error: unknown) => {
      if (isNew && tokenId !== undefined) await this.#revoke(token, tokenId)
      throw error
    })
    if (earlier === undefined) return saved.store
    if (earlier.tokenId !== undefined && earlier.tokenId !== tokenId) {
      await this.#revoke(earlier.token ?? token, earlier.tokenId)
    }
    await this.#clean(earlier, saved)
    return saved.store
  }

  /** Revokes and removes the login. */
  async forget(login: StoredLogin): Promise<void> {
    const { url } = this.#settings
    const token = await tokenOf(this.#keyring, url, login).catch((error: unknown) => {
      if (!(error instanceof PlatformError)) throw error
      return undefined
    })
    if (token !== undefined && login.tokenId !== undefined) {
      await this.#revoke(token, login.tokenId)
    } else {
      const why = token === undefined ? 'the keyring does not give it' : 'its id is not known'
      this.#access.warn('TOKEN_REVOKE_FAILED', `The token was not revoked: ${why}.`)
    }
    await this.file.remove(url)
    await this.#clean(login, undefined)
  }

  async #save(
    login: Identity & { readonly token: string },
    earlier: StoredLogin | undefined,
  ): Promise<StoredLogin> {
    const { url } = this.#settings
    const { token, expiresAt, user, tokenId } = login
    const account = `${platformAccount(url)}:${digest(tokenId ?? crypto.randomUUID())}`
    const store = await this.#keepToken(account, token)
    const atFile = store === 'file' ? token : undefined
    const saved: StoredLogin = { token: atFile, expiresAt, user, tokenId, account, store }
    try {
      await this.file.save(url, saved)
    } catch (cause) {
      const isNew = earlier?.account !== account
      if (store === 'keyring' && isNew) await this.#delete([account])
      throw new PlatformError(
        'CREDENTIALS_UNAVAILABLE',
        `The login cannot be saved in ${this.file.path}: ${errorMessage(cause)}`,
        { cause },
      )
    }
    return saved
  }

  async #keepToken(account: string, token: string): Promise<'keyring' | 'file'> {
    const { tokenStore } = this.#settings
    if (tokenStore === 'file') return 'file'
    try {
      await this.#keyring.set(account, token)
      return 'keyring'
    } catch (error) {
      if (tokenStore === 'keyring' || !(error instanceof PlatformError)) throw error
      const message = `${error.message}. The token is stored in ${this.file.path}.`
      this.#access.warn('KEYRING_UNAVAILABLE', message)
      return 'file'
    }
  }

  async #revoke(token: string, tokenId: string): Promise<void> {
    try {
      await revokeToken(this.#access.clientFor(token), tokenId)
    } catch (error) {
      const message = `The token was not revoked: ${errorMessage(error)}`
      this.#access.warn('TOKEN_REVOKE_FAILED', message)
    }
  }

  /** Removes the token of a login from the keyring, except one that the replacement uses. */
  async #clean(login: StoredLogin, replacement: StoredLogin | undefined): Promise<void> {
    if (login.store !== 'keyring') return
    const needed = replacement?.store === 'keyring' ? replacement.account : undefined
    const accounts = accountsOf(this.#settings.url, login)
    await this.#delete(accounts.filter((account) => account !== needed))
  }

  async #delete(accounts: readonly string[]): Promise<void> {
    try {
      for (const account of accounts) await this.#keyring.delete(account)
    } catch (error) {
      const message = `The keyring of the system still has a token for ${this.#settings.url}, under the service ${keyringService}: remove it there. ${errorMessage(error)}`
      this.#access.warn('KEYRING_CLEANUP_FAILED', message)
    }
  }
}

/**
 * The token of a login in the credentials file; undefined when the keyring no longer has it.
 *
 * @throws PlatformError with code `KEYRING_UNAVAILABLE`
 */
async function tokenOf(
  keyring: Keyring,
  url: string,
  login: StoredLogin,
): Promise<string | undefined> {
  if (login.store === 'file') return login.token
  for (const account of accountsOf(url, login)) {
    const token = await keyring.get(account)
    if (token !== undefined) return token
  }
  return undefined
}

/** The account of older logins for a platform, and the prefix of newer ones. */
function platformAccount(url: string): string {
  return `platform:${digest(url)}`
}

/**
 * Accounts that may have the token of a login. An account in the file is used only if it is one of this
 * platform; earlier logins for the default platform had two other accounts.
 */
function accountsOf(url: string, { account = '', user }: StoredLogin): string[] {
  const base = platformAccount(url)
  const own = account.startsWith(`${base}:`) ? [account] : []
  if (url !== defaultPlatformUrl) return [...own, base]
  const email = textOf(user['email'])
  return [...own, ...(email === undefined ? [] : [email]), base, 'default']
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 24)
}

/** The login that requests use. */
export interface ActiveLogin {
  readonly token: string
  /** The variable `OSMOSIS_TOKEN`, or the storage of the login. */
  readonly source: 'environment' | 'keyring' | 'file'
  /** Its record in the credentials file; undefined for a token of the environment. */
  readonly stored: StoredLogin | undefined
}

/**
 * The login for the platform of these settings: `OSMOSIS_TOKEN`, else the stored one. It never changes the
 * storage, even if that is invalid.
 *
 * @throws PlatformError with code `AUTH_REQUIRED` without a login or with an expired one,
 * `KEYRING_UNAVAILABLE` when the token is in a keyring that cannot be used, or a code of
 * {@link CredentialsFile}
 */
export async function activeLogin(
  { url, environmentToken }: PlatformSettings,
  file: CredentialsFile,
  keyring: Keyring,
): Promise<ActiveLogin> {
  if (environmentToken !== undefined) {
    return { token: environmentToken, source: 'environment', stored: undefined }
  }
  const stored = await file.find(url)
  if (stored === undefined) throw loggedOut(`${file.path} has no login for ${url}`)
  if (Date.now() >= (instant(stored.expiresAt) ?? 0)) {
    throw loggedOut(`the login for ${url} has expired on ${stored.expiresAt}`)
  }
  const token = await tokenOf(keyring, url, stored).catch((error: unknown) => {
    if (!(error instanceof PlatformError)) throw error
    throw new PlatformError(
      'KEYRING_UNAVAILABLE',
      `The login for ${url} is in the keyring of the system. ${error.message}. Log in again with \`osmosis platform login\`, or set OSMOSIS_TOKEN to a login token of the platform.`,
      { cause: error },
    )
  })
  if (token === undefined) {
    throw loggedOut(`the keyring of the system no longer has the token for ${url}`)
  }
  return { token, source: stored.store, stored }
}
