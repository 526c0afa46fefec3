import { errorMessage } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import type { AsyncEntry as Entry } from '@napi-rs/keyring'

import { PlatformError } from '../platform-error.ts'

/**
 * Where an operating system keeps tokens, by account.
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

/** What all command lines of Osmosis keep their tokens under. */
export const keyringService = 'osmosis-cli'

/**
 * The keyring of this user: the Secret Service on Linux, the Keychain on macOS. The library that
 * speaks to them is an optional dependency, and neither of them is everywhere.
 */
export class SystemKeyring implements Keyring {
  readonly #signal: AbortSignal

  /** @param signal - ends the wait for somebody who is asked to unlock the keyring */
  constructor(signal: AbortSignal = new AbortController().signal) {
    this.#signal = signal
  }

  async get(account: string): Promise<string | undefined> {
    return (await this.#use(account, (entry) => entry.getPassword())) ?? undefined
  }

  async set(account: string, token: string): Promise<void> {
    await this.#use(account, (entry) => entry.setPassword(token))
  }

  async delete(account: string): Promise<void> {
    await this.#use(account, (entry) => entry.deleteCredential())
  }

  async #use<T>(account: string, act: (entry: Entry) => Promise<T>): Promise<T> {
    // The Python command line names entries in another way there: neither would find the other's.
    if (process.platform === 'win32') throw unavailable('that of Windows is not supported')
    try {
      return await untilAborted(this.#signal, async () => {
        const { AsyncEntry } = await import('@napi-rs/keyring')
        // Otherwise the kernel's own keyring is taken where there is no Secret Service. It forgets
        // everything when the machine restarts, and no other command line looks there.
        return act(new AsyncEntry(keyringService, account, { linux: { store: 'secret-service' } }))
      })
    } catch (cause) {
      this.#signal.throwIfAborted()
      const [why = ''] = errorMessage(cause).split('\n')
      throw unavailable(why.replace(/\.+$/, ''), cause)
    }
  }
}

function unavailable(why: string, cause?: unknown): PlatformError {
  return new PlatformError(
    'KEYRING_UNAVAILABLE',
    `The keyring of the system cannot be used: ${why}`,
    { cause },
  )
}
