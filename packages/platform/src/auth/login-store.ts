import { createHash } from 'node:crypto'

import { errorMessage } from '@osmosis/core'

import { textOf } from '../json-object.ts'
import { PlatformError } from '../platform-error.ts'
import { defaultPlatformUrl } from '../platform-url.ts'
import type { TokenStore } from '../settings.ts'
import { CredentialsFile } from './credentials-file.ts'
import type { Identity } from './identity.ts'
import { type Keyring, keyringService, SystemKeyring } from './keyring.ts'
import type { StoredLogin } from './stored-login.ts'

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
        `The login cannot be kept in ${this.file.path}: ${errorMessage(cause)}`,
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
      const message = `${error.message}. The token is kept in ${this.file.path}.`
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
