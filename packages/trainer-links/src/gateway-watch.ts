import { errorMessage, type RolloutGroup } from '@osmosis/core'
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
import { statusOf, type TrainerClient } from './trainer-client.ts'

/** A rollout of this worker, from before its claim until its outcome has been delivered. */
export interface HeldRollout {
  readonly rollout: GatewayRollout
  /** The attempt under which the gateway records its calls. */
  attempt: string
  /** How often it was executed again. */
  tries: number
  /** The group that it is an attempt of, from its first execution. */
  group?: RolloutGroup | undefined
  /** On the clock of `performance.now()`. Milliseconds. */
  readonly claimedAt: number
  readonly withdrawn: PromiseWithResolvers<void>
}

interface GatewayWatchOptions {
  readonly client: TrainerClient
  /** The rollouts of this worker, by id. */
  readonly held: ReadonlyMap<string, HeldRollout>
  /** The suffix of this worker's attempts. */
  readonly worker: string
  readonly watchSeconds: number
  readonly abandonedAfterSeconds: number
  readonly logger: Logger
}

/** More than any gateway runs concurrently; its own default is 500. */
const maxRunning = 100_000

/**
 * Polls the list of running rollouts, in one request for all rollouts of this worker. The gateway does not
 * report a withdrawal, and never ends the rollouts of workers that have exited, although its trainer waits
 * for them.
 */
export class GatewayWatch {
  readonly #options: GatewayWatchOptions
  readonly #closing = new AbortController()
  #polling: Promise<void> | undefined

  constructor(options: GatewayWatchOptions) {
    this.#options = options
  }

  start(): void {
    this.#polling ??= this.#poll()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#polling
  }

  async #poll(): Promise<void> {
    const { watchSeconds, logger } = this.#options
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        await this.#pollOnce()
        await wait(watchSeconds * 1000, signal)
      } catch (error) {
        if (signal.aborted) return
        logger.debug(
          { error: errorMessage(error) },
          'the list of running rollouts could not be fetched',
        )
        await wait(watchSeconds * 1000, signal).catch(() => {})
      }
    }
  }

  async #pollOnce(): Promise<void> {
    const { client, held } = this.#options
    const path = `/api/rollouts?state_in=running&limit=${maxRunning}`
    const requestedAt = performance.now()
    const listed = gatewayRollouts(await client.send({ method: 'GET', path }, this.#closing.signal))
    const running = new Set(listed.map(({ id }) => id))
    for (const rollout of listed) {
      if (held.has(rollout.id) || !this.#isAbandoned(rollout)) continue
      await this.#alone(rollout.id, () => this.#endAbandoned(rollout))
    }
    for (const one of held.values()) {
      if (one.claimedAt >= requestedAt || running.has(one.rollout.id)) continue
      await this.#alone(one.rollout.id, () => this.#check(one))
    }
  }

  /** An error of one rollout must not keep the others from being ended or stopped: the next poll tries it again. */
  async #alone(id: string, look: () => Promise<void>): Promise<void> {
    this.#closing.signal.throwIfAborted()
    try {
      await look()
    } catch (error) {
      this.#closing.signal.throwIfAborted()
      const line = { rollout_id: id, error: errorMessage(error) }
      this.#options.logger.debug(line, 'a running rollout could not be checked')
    }
  }

  /** Whether its worker has exited, or is this one, which could not deliver the outcome. */
  #isAbandoned({ attempt, updatedAt, timeoutSeconds, state }: GatewayRollout): boolean {
    const { client, worker, abandonedAfterSeconds } = this.#options
    if (state !== 'running') return false
    if (attempt?.endsWith(`-${worker}`)) return true
    return client.now() > updatedAt + timeoutSeconds + abandonedAfterSeconds
  }

  async #endAbandoned({ id, attempt = '' }: GatewayRollout): Promise<void> {
    const { client, logger } = this.#options
    const message = 'The worker that executed it has exited.'
    const end = { kind: 'failed', category: 'agent_error', message } as const
    await client.send(patch(id, finalStatus(end, attempt)))
    logger.warn({ rollout_id: id }, 'an abandoned rollout was ended, so that its trainer continues')
  }

  /** A rollout that is not in the list may also have been claimed after it was fetched. */
  async #check(one: HeldRollout): Promise<void> {
    const { client, held } = this.#options
    const { id } = one.rollout
    const request = { method: 'GET', path: pathOf(id) } as const
    const state = await client.send(request, this.#closing.signal).then(
      (found) => gatewayRollout(found).state,
      (error: unknown) => {
        if (statusOf(error) !== 404) throw error
        return undefined
      },
    )
    const isOpen = state === 'running' || state === 'queuing'
    if (held.get(id) === one && !isOpen) one.withdrawn.resolve()
  }
}
