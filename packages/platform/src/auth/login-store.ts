import { createHash } from 'node:crypto'

import { errorMessage } from '@osmosis/core'

import type { PlatformClient } from '../client.ts'
import { textOf } from '../answers.ts'
import { PlatformError } from '../platform-error.ts'
import { defaultPlatformUrl, type TokenStore, type PlatformSettings } from '../settings.ts'
import { CredentialsFile } from './credentials-file.ts'
import { type Keyring, keyringService, SystemKeyring } from './keyring.ts'
import { type Identity, type StoredLogin, instant, loggedOut, revokeToken } from './stored-login.ts'

/** Something that was left undone, and does not undo what was done. */
export interface LoginWarning {
  readonly code:
    | 'KEYRING_CLEANUP_FAILED'
    | 'KEYRING_UNAVAILABLE'
    | 'TOKEN_REVOKE_FAILED'
    | 'CREDENTIALS_MOVED'
  readonly message: string
}

/**
 * The logins of this user: who they are in the credentials file, and the token in the keyring of
 * the system, or where that cannot be used in the file as well.
 */
export class LoginStore {
  readonly file: CredentialsFile
  readonly #keyring: Keyring
  readonly #tokenStore: TokenStore

  constructor(
    options: {
      /** Default: that of this user. */
      readonly file?: CredentialsFile
      /** Default: that of the system. */
      readonly keyring?: Keyring
      /** Where the tokens of new logins go; default: `auto`. */
      readonly tokenStore?: TokenStore
    } = {},
  ) {
    this.file = options.file ?? new CredentialsFile()
    this.#keyring = options.keyring ?? new SystemKeyring()
    this.#tokenStore = options.tokenStore ?? 'auto'
  }

  /**
   * Finds out whether a login for a platform could be kept.
   *
   * @throws PlatformError with code `KEYRING_UNAVAILABLE` when nothing but the keyring will do
   */
  async check(url: string): Promise<void> {
    if (this.#tokenStore === 'keyring') await this.#keyring.get(platformAccount(url))
  }

  /**
   * The token of a login in the credentials file; undefined when it is not in the keyring any more.
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
   * Keeps a login in place of an earlier one, to be cleaned up afterwards.
   *
   * @throws PlatformError with code `CREDENTIALS_UNAVAILABLE` or `KEYRING_UNAVAILABLE`; then the
   * earlier one is as it was
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
    const kept: StoredLogin = { token: atFile, expiresAt, user, tokenId, account, store }
    try {
      await this.file.save(url, kept)
    } catch (cause) {
      const isNew = earlier?.account !== account
      if (store === 'keyring' && isNew) await this.#delete([account], url, warn)
      throw new PlatformError(
        'CREDENTIALS_UNAVAILABLE',
        `The login cannot be saved in ${this.file.path}: ${errorMessage(cause)}`,
        { cause },
      )
    }
    return kept
  }

  /** Removes the token of a login from the keyring, except what the login that replaced it has there. */
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

/** What older logins for a platform are named, and the newer ones begin with. */
function platformAccount(url: string): string {
  return `platform:${digest(url)}`
}

/**
 * Names under which the token of a login may be. What the file says is believed only when it is
 * about this platform; logins for the default one had two other names before.
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
