import { setTimeout as sleep } from 'node:timers/promises'

import type { HttpPeer } from './http-peer.ts'
import type { TestServerProcess } from './server-process.ts'

/** A number from 0 to below `limit`. */
export type RandomNumbers = (limit: number) => number

/** The same numbers for the same seed. */
export function randomNumbers(seed: number): RandomNumbers {
  let state = seed
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
}

/** A server that is killed at random moments, and started again each time. */
export class KilledServer<T extends TestServerProcess> implements AsyncDisposable {
  readonly #start: () => Promise<T>
  #process: Promise<T>
  #stopped = false
  kills = 0

  constructor(start: () => Promise<T>) {
    this.#start = start
    this.#process = start()
  }

  /** The process that serves, or is about to. */
  get process(): Promise<T> {
    return this.#process
  }

  /** Retries until one of the processes answers. */
  async persist<R>(act: (process: T) => Promise<R>): Promise<R> {
    for (;;) {
      const process = await this.#process
      try {
        return await act(process)
      } catch (error) {
        // What fetch throws when a connection breaks.
        if (!(error instanceof TypeError)) throw error
        await Promise.race([sleep(20), process.exit])
      }
    }
  }

  /**
   * Kills it each time when its peer has heard of it as often as `next` says, or of nothing for two
   * seconds, until `work` is done.
   */
  async killUntil(work: Promise<unknown>, peer: HttpPeer, next: () => number): Promise<void> {
    const stop = (): void => {
      this.#stopped = true
    }
    const ending = work.finally(stop)
    for (;;) {
      const enough = peer.received + next()
      const heard = peer.until(() => peer.received >= enough)
      await Promise.race([heard, sleep(2000), ending])
      if (this.#stopped) break
      await (await this.#process).end()
      this.kills += 1
      this.#process = this.#start()
      await this.#process
    }
    await ending
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.#process).end()
  }
}
