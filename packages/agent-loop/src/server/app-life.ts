import { OsmosisError } from '@osmosis/core'
import type { CallbackDelivery, ServerDrain } from '@osmosis/server/parts'

import type { CreateAppOptions } from './app-options.ts'

/** What begins and ends with an app. */
export interface LivingParts {
  readonly delivery: Pick<CallbackDelivery, 'start'>
  readonly drain: Pick<ServerDrain, 'drain'>
}

/** The beginning and the end of an app: the user's hooks around everything else, each once. */
export class AppLife {
  readonly #parts: LivingParts
  readonly #hooks: Pick<CreateAppOptions, 'onStartup' | 'onShutdown'>
  readonly #ending = new AbortController()
  #starting: Promise<void> | undefined
  #ready = false
  #ended: Promise<void> | undefined

  constructor(parts: LivingParts, hooks: Pick<CreateAppOptions, 'onStartup' | 'onShutdown'>) {
    this.#parts = parts
    this.#hooks = hooks
  }

  /** Aborts when the end begins. */
  get ending(): AbortSignal {
    return this.#ending.signal
  }

  async start(): Promise<void> {
    if (this.#ready) return
    this.#starting ??= this.#startUp()
    await this.#starting
  }

  /** Later calls wait for the same end; one with less time cuts the wait for rollouts short. */
  async end(waitSeconds?: number): Promise<void> {
    this.#ending.abort(new OsmosisError('server_shutdown', 'the server shut down first'))
    await this.#parts.drain.drain(waitSeconds)
    this.#ended ??= this.#shutDown()
    await this.#ended
  }

  async #startUp(): Promise<void> {
    await this.#parts.delivery.start()
    await this.#hooks.onStartup?.()
    this.#ready = true
  }

  // What never began has nothing to shut down; what is just beginning has.
  async #shutDown(): Promise<void> {
    await this.#starting?.catch(() => undefined)
    if (this.#ready) await this.#hooks.onShutdown?.()
  }
}
