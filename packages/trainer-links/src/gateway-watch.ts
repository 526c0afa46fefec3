import { errorMessage } from '@osmosis/core'
import { wait } from '@osmosis/core/http'
import type { Logger } from '@osmosis/server'

import {
  finalStatus,
  gatewayRollout,
  gatewayRollouts,
  patch,
  pathOf,
  type GatewayRollout,
} from './gateway-rollout.ts'
import type { TrainerClient } from './trainer-client.ts'

/** A rollout from before it is claimed until the gateway was told how it ended. */
export interface HeldRollout {
  readonly rollout: GatewayRollout
  /** Under which its calls are recorded. */
  attempt: string
  /** How often it was run again. */
  tries: number
  /** Milliseconds, as `performance.now` says them. */
  readonly claimedAt: number
  readonly withdrawn: PromiseWithResolvers<void>
}

interface GatewayWatchOptions {
  readonly client: TrainerClient
  /** Those of this worker, by their ids. */
  readonly held: ReadonlyMap<string, HeldRollout>
  /** What the attempts of this worker end with. */
  readonly worker: string
  readonly watchSeconds: number
  readonly abandonedAfterSeconds: number
  readonly logger: Logger
}

/** More than any gateway runs concurrently; its own default is 500. */
const mostRunning = 100_000

/**
 * Looks at all running rollouts of the gateway, once for all that this worker holds: the gateway does not
 * say when one was withdrawn, and never ends those of workers that are gone, which a trainer waits for.
 */
export class GatewayWatch {
  readonly #options: GatewayWatchOptions
  readonly #closing = new AbortController()
  #looking: Promise<void> | undefined

  constructor(options: GatewayWatchOptions) {
    this.#options = options
  }

  start(): void {
    this.#looking ??= this.#look()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#looking
  }

  async #look(): Promise<void> {
    const { watchSeconds, logger } = this.#options
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        await this.#lookOnce()
        await wait(watchSeconds * 1000, signal)
      } catch (error) {
        if (signal.aborted) return
        logger.debug({ error: errorMessage(error) }, 'running rollouts could not be looked at')
        await wait(watchSeconds * 1000, signal).catch(() => {})
      }
    }
  }

  async #lookOnce(): Promise<void> {
    const { client, held } = this.#options
    const path = `/api/rollouts?state_in=running&limit=${mostRunning}`
    const askedAt = performance.now()
    const listed = gatewayRollouts(await client.send({ method: 'GET', path }, this.#closing.signal))
    const running = new Set(listed.map(({ id }) => id))
    for (const rollout of listed) {
      if (!held.has(rollout.id) && this.#isAbandoned(rollout)) await this.#giveUp(rollout)
    }
    for (const one of held.values()) {
      if (one.claimedAt < askedAt && !running.has(one.rollout.id)) await this.#lookAt(one)
    }
  }

  /** Nobody runs it: its worker is gone, or is this one, which could not tell how it ended. */
  #isAbandoned({ attempt, updatedAt, timeoutSeconds, state }: GatewayRollout): boolean {
    const { client, worker, abandonedAfterSeconds } = this.#options
    if (state !== 'running') return false
    if (attempt?.endsWith(`-${worker}`)) return true
    return client.now() > updatedAt + timeoutSeconds + abandonedAfterSeconds
  }

  async #giveUp({ id, attempt = '' }: GatewayRollout): Promise<void> {
    const { client, logger } = this.#options
    const message = 'The worker that ran it is gone.'
    logger.warn({ rollout_id: id }, 'an abandoned rollout is ended, so that its trainer continues')
    const end = { kind: 'failed', category: 'agent_error', message } as const
    await client.tell(patch(id, finalStatus(end, attempt)), this.#closing.signal)
  }

  /** It was not among the running ones; it may also have been claimed since. */
  async #lookAt(one: HeldRollout): Promise<void> {
    const { client, held } = this.#options
    const { id } = one.rollout
    const told = await client.tell({ method: 'GET', path: pathOf(id) }, this.#closing.signal)
    const state = told === undefined ? undefined : gatewayRollout(told).state
    const isGoingOn = state === 'running' || state === 'queuing'
    if (held.get(id) === one && !isGoingOn) one.withdrawn.resolve()
  }
}
