// What keeps a Redis from storing what a queue asks it to, and who is told.
import { errorMessage, type OsmosisError } from '@osmosis/core'
import type { Logger } from '@osmosis/server'
import { ReplyError } from 'ioredis'

import type { RolloutRecords } from '../records/rollout-records.ts'

/** Maximum number of rollouts that are not told of twice. */
const mostToldOf = 10_000

/** Whether Redis stores what it is asked to, by its answers. */
export class QueueTroubles {
  readonly #toError: (refusal: unknown) => OsmosisError
  #current: OsmosisError | undefined
  /** How often in a row Redis has not stored what it was asked to. */
  #failures = 0
  readonly #listeners: ((trouble: OsmosisError | undefined) => void)[] = []
  readonly #toldOf = new Set<string>()
  readonly #rolloutListeners: ((id: string, error: unknown) => void)[] = []

  /** @param toError - makes an error of the queue of what a command threw */
  constructor(toError: (refusal: unknown) => OsmosisError) {
    this.#toError = toError
  }

  /** Why Redis does not store what it is asked to; undefined while it does. */
  get current(): OsmosisError | undefined {
    return this.#current
  }

  /** Calls a function once when a trouble begins, and once, without it, when it is over. */
  onChange(listener: (trouble: OsmosisError | undefined) => void): void {
    this.#listeners.push(listener)
  }

  /** Calls a function once for each rollout about which nothing can be done. */
  onRollout(listener: (id: string, error: unknown) => void): void {
    this.#rolloutListeners.push(listener)
  }

  noteRollout(id: string, error: unknown): void {
    if (this.#toldOf.has(id)) return
    // A process may run for months.
    if (this.#toldOf.size === mostToldOf) this.#toldOf.clear()
    this.#toldOf.add(id)
    for (const listener of this.#rolloutListeners) listener(id, error)
  }

  /** @param refusal - what the command threw; undefined when Redis has stored what it was asked to */
  note(refusal: unknown): void {
    this.#failures = refusal === undefined ? 0 : this.#failures + 1
    // A single answer is late where code of the user has blocked this process.
    if (this.#failures === 1 && !(refusal instanceof ReplyError)) return
    const was = this.#current
    this.#current = refusal === undefined ? undefined : this.#toError(refusal)
    if ((was === undefined) === (refusal === undefined)) return
    for (const listener of this.#listeners) listener(this.#current)
  }
}

/** Logs, with one line each, that no replica has what is told to callers, and that one has it again. */
export function logReplication({ replication }: RolloutRecords, logger: Logger | undefined): void {
  const { address } = replication
  replication.onChange((isReplicated) => {
    if (isReplicated) {
      logger?.info({}, `A replica of the Redis of the queue at ${address} answers again.`)
      return
    }
    logger?.warn(
      {},
      `No replica of the Redis of the queue at ${address} answers: outcomes are told without one, and a failover may lose them. Check its replicas.`,
    )
  })
}

/** Logs, with one line each, that the Redis of a queue stores nothing, that it does so again, and rollouts that cannot be ended. */
export function logTroubles(
  { troubles, address }: { readonly troubles: QueueTroubles; readonly address: string },
  logger: Logger | undefined,
): void {
  troubles.onChange((trouble) => {
    if (trouble === undefined) {
      logger?.info({}, `The Redis of the queue at ${address} stores again.`)
    } else logger?.warn({}, `${trouble.message} Rollouts wait until it stores them.`)
  })
  troubles.onRollout((id, error) => {
    logger?.warn(
      { rollout_id: id },
      `A rollout of the queue cannot be looked after: ${errorMessage(error)}`,
    )
  })
}
