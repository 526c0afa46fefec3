import { createHash } from 'node:crypto'

import { errorMessage } from '@osmosis/core'

import type { PlatformClient } from '../client.ts'
import { textOf } from '../answers.ts'
import { PlatformError } from '../platform-error.ts'
import { defaultPlatformUrl, type TokenStore, type PlatformSettings } from '../settings.ts'
import { CredentialsFile } from './credentials-file.ts'
import { type Keyring, keyringService, SystemKeyring } from './keyring.ts'
import { type Identity, type StoredLogin, instant, loggedOut, revokeToken } from './stored-login.ts'

/** A problem that does not fail the command. */
export interface LoginWarning {
  readonly code:
    | 'KEYRING_CLEANUP_FAILED'
    | 'KEYRING_UNAVAILABLE'
    | 'TOKEN_REVOKE_FAILED'
    | 'CREDENTIALS_MOVED'
  readonly message: string
}

/**
 * Stores the logins of this user: the user in the credentials file, and the token in the keyring of the
 * system, or also in the file where there is no keyring.
 */
export class LoginStore {
  readonly file: CredentialsFile
  readonly #keyring: Keyring
  readonly #tokenStore: TokenStore

  constructor(
    options: {
      /** Default: the file of this user. */
      readonly file?: CredentialsFile
      /** Default: the keyring of the system. */
      readonly keyring?: Keyring
      /** Storage for tokens of new logins; default: `auto`. */
      readonly tokenStore?: TokenStore
    } = {},
  ) {
    this.file = options.file ?? new CredentialsFile()
    this.#keyring = options.keyring ?? new SystemKeyring()
    this.#tokenStore = options.tokenStore ?? 'auto'
  }

  /**
   * Checks that a login for a platform can be saved.
   *
   * @throws PlatformError with code `KEYRING_UNAVAILABLE` when only the keyring is allowed
   */
  async check(url: string): Promise<void> {
    if (this.#tokenStore === 'keyring') await this.#keyring.get(platformAccount(url))
  }

  /**
   * The token of a login in the credentials file; undefined when the keyring no longer has it.
   *
   * @throws PlatformError with code `KEYRING_UNAVAILABLE`
   */
  async token(url: string, login: StoredLogin): Promise<string | undefined> {
    if (login.store === 'file') return login.token
    for (const account of accountsOf(url, login)) {
      const token = await this.#keyring.get(account)
      if (token !== undefined) return token
    }
    return undefined
  }

  /**
   * Saves a login. The caller then cleans up the login that it replaces.
   *
   * @throws PlatformError with code `CREDENTIALS_UNAVAILABLE` or `KEYRING_UNAVAILABLE`; then the
   * earlier one is unchanged
   */
  async save(
    url: string,
    login: Identity & { readonly token: string },
    earlier: StoredLogin | undefined,
    warn: (warning: LoginWarning) => void,
  ): Promise<StoredLogin> {
    const { token, expiresAt, user, tokenId } = login
    const account = `${platformAccount(url)}:${digest(tokenId ?? crypto.randomUUID())}`
    const store = await this.#keepToken(account, token, warn)
    const atFile = store === 'file' ? token : undefined
    const saved: StoredLogin = { token: atFile, expiresAt, user, tokenId, account, store }
    try {
      await this.file.save(url, saved)
    } catch (cause) {
      const isNew = earlier?.account !== account
      if (store === 'keyring' && isNew) await this.#delete([account], url, warn)
      throw new PlatformError(
        'CREDENTIALS_UNAVAILABLE',
        `The login cannot be saved in ${this.file.path}: ${errorMessage(cause)}`,
        { cause },
      )
    }
    return saved
  }

  /** Removes the token of a login from the keyring, except one that the replacement uses. */
  async clean(
    url: string,
    login: StoredLogin,
    replacement: StoredLogin | undefined,
    warn: (warning: LoginWarning) => void,
  ): Promise<void> {
    if (login.store !== 'keyring') return
    const needed = replacement?.store === 'keyring' ? replacement.account : undefined
    const accounts = accountsOf(url, login).filter((account) => account !== needed)
    await this.#delete(accounts, url, warn)
  }

  async #delete(
    accounts: readonly string[],
    url: string,
    warn: (warning: LoginWarning) => void,
  ): Promise<void> {
    try {
      for (const account of accounts) await this.#keyring.delete(account)
    } catch (error) {
      warn({
        code: 'KEYRING_CLEANUP_FAILED',
        message: `The keyring of the system still has a token for ${url}, under the service ${keyringService}: remove it there. ${errorMessage(error)}`,
      })
    }
  }

  async #keepToken(
    account: string,
    token: string,
    warn: (warning: LoginWarning) => void,
  ): Promise<'keyring' | 'file'> {
    if (this.#tokenStore === 'file') return 'file'
    try {
      await this.#keyring.set(account, token)
      return 'keyring'
    } catch (error) {
      if (this.#tokenStore === 'keyring' || !(error instanceof PlatformError)) throw error
      const message = `${error.message}. The token is stored in ${this.file.path}.`
      warn({ code: 'KEYRING_UNAVAILABLE', message })
      return 'file'
    }
  }
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
  const token = await storedToken(store, url, stored)
  if (token === undefined) {
    throw loggedOut(`the keyring of the system no longer has the token for ${url}`)
  }
  return { token, source: stored.store, stored }
}

async function storedToken(
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
      `The login for ${url} is in the keyring of the system. ${error.message}. Log in again with \`osmosis platform login\`, or set OSMOSIS_TOKEN to a login token of the platform.`,
      { cause: error },
    )
  }
}

/**
 * Checks before a login that it can be saved. Resolves with the login that it replaces.
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
      message: `${file.path} could not be read, and was renamed to ${moved}.`,
    })
  }
  return file.find(url).catch(() => undefined)
}

/** Where a login is stored, and how its platform is called. */
export interface LoginAccess {
  readonly store: LoginStore
  readonly url: string
  /** Gives a client that presents a token. */
  readonly clientFor: (token: string) => PlatformClient
  readonly warn: (warning: LoginWarning) => void
}

/**
 * Saves a login and revokes the earlier one. Resolves with the storage of the token.
 *
 * @throws PlatformError with code `CREDENTIALS_UNAVAILABLE` or `KEYRING_UNAVAILABLE` when it cannot
 * be saved; a new token has been revoked then
 */
export async function keepLogin(
  login: Identity & { readonly token: string; readonly isNew: boolean },
  options: LoginAccess & { readonly earlier: StoredLogin | undefined },
): Promise<'keyring' | 'file'> {
  const { store, url, earlier, clientFor, warn } = options
  const { token, tokenId } = login
  const saved = await store.save(url, login, earlier, warn).catch(async (error: unknown) => {
    if (login.isNew && tokenId !== undefined) await tryToRevoke(clientFor(token), tokenId, warn)
    throw error
  })
  if (earlier === undefined) return saved.store
  if (earlier.tokenId !== undefined && earlier.tokenId !== tokenId) {
    await tryToRevoke(clientFor(earlier.token ?? token), earlier.tokenId, warn)
  }
  await store.clean(url, earlier, saved, warn)
  return saved.store
}

/** Revokes and removes the login for a platform. */
export async function forgetLogin(
  login: StoredLogin,
  { store, url, clientFor, warn }: LoginAccess,
): Promise<void> {
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
