import type * as Keyrings from '@napi-rs/keyring'
import { errorMessage } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'

import { PlatformError } from '../client/platform-error.ts'

/**
 * Storage of the operating system for tokens, by account.
 *
 * Its methods throw PlatformError with code `KEYRING_UNAVAILABLE`.
 */
export interface Keyring {
  /** Resolves with undefined when there is no such account. */
  get(account: string): Promise<string | undefined>
  set(account: string, token: string): Promise<void>
  /** Does nothing when there is no such account. */
  delete(account: string): Promise<void>
}

/** Service name of the tokens of all command lines of Osmosis. */
export const keyringService = 'osmosis-cli'

/**
 * The keyring of this user: the Secret Service on Linux, the Keychain on macOS. Its library is an optional
 * dependency, and a machine may have no keyring.
 */
export class SystemKeyring implements Keyring {
  readonly #signal: AbortSignal

  /** @param signal - ends the wait for the user to unlock the keyring */
  constructor(signal: AbortSignal = new AbortController().signal) {
    this.#signal = signal
  }

  async get(account: string): Promise<string | undefined> {
    const token = await this.#use(account, async (entry, library) => {
      try {
        return await entry.getPassword()
      } catch (error) {
        if (!isAmbiguous(error)) throw error
        // An account belongs to one token, so all its entries have the same password.
        const all = await library.findCredentialsAsync(keyringService)
        return all.find((found) => found.account === account)?.password
      }
    })
    return token ?? undefined
  }

  async set(account: string, token: string): Promise<void> {
    // Keeps an entry of another command line that has the same token.
    if ((await this.get(account)) === token) return
    await this.#use(account, (entry) => entry.setPassword(token))
  }

  async delete(account: string): Promise<void> {
    await this.#use(account, (entry) => entry.deleteCredential())
  }

  async #use<T>(
    account: string,
    act: (entry: Keyrings.AsyncEntry, library: typeof Keyrings) => Promise<T>,
  ): Promise<T> {
    // The Python command line names entries differently there, so neither would find those of the other.
    if (process.platform === 'win32') throw unavailable('that of Windows is not supported')
    try {
      return await untilAborted(this.#signal, async () => {
        const library = await import('@napi-rs/keyring')
        // Otherwise the library falls back to the keyring of the kernel, which is cleared on a restart and
        // which no other command line reads.
        const linux = { store: 'secret-service' } as const
        return act(new library.AsyncEntry(keyringService, account, { linux }), library)
      })
    } catch (cause) {
      this.#signal.throwIfAborted()
      const [why = ''] = isAmbiguous(cause)
        ? ['two command lines have put the token there']
        : errorMessage(cause).split('\n')
      throw unavailable(why.replace(/\.+$/, ''), cause)
    }
  }
}

/** Command lines add different attributes, so one account may have several entries. */
function isAmbiguous(error: unknown): boolean {
  return /matched by \d+ credentials/.test(errorMessage(error))
}

function unavailable(why: string, cause?: unknown): PlatformError {
  return new PlatformError(
    'KEYRING_UNAVAILABLE',
    `The keyring of the system cannot be used: ${why}`,
    { cause },
  )
}
