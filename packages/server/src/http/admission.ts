import { hash } from 'node:crypto'

import { errorMessage } from '@osmosis/core'
import type { RolloutState } from '@osmosis/protocol'
import { RolloutMemory, type SecretValues } from '@osmosis/protocol/http'

import type { CallbackDelivery } from '../delivery/callback-delivery.ts'
import type { OutboxRecord } from '../delivery/outbox-record.ts'
import type { Leftovers, Outbox } from '../delivery/outbox.ts'
import type { Callback, OutboxAcceptance } from '../journal/outbox-lines.ts'
import type { Logger } from '../logging/logger.ts'
import type { RunningWork } from '../work/running-work.ts'
import { AdmittedIds } from './admitted-ids.ts'
import { HttpRefusal } from './server-route.ts'

/** Seconds after which a refused caller may retry. */
const retryAfter = { 'retry-after': '5' }

/** Why a rollout is not accepted. Callers act on the status; the text is for their logs. */
export const refusals = {
  ending: () => new HttpRefusal(503, 'rollout server is shutting down', retryAfter),
  drained: () => new HttpRefusal(503, 'rollout admissions are drained', retryAfter),
  /** @param what - the outage, as in `the outbox cannot be written to` */
  unavailable: (what: string) => new HttpRefusal(503, `${what}; retry later`, retryAfter),
  full: (status: 429 | 503) =>
    new HttpRefusal(status, 'rollout queue is full; retry later', retryAfter),
  registered: () => new HttpRefusal(409, 'rollout_id is already registered'),
  contradicted: () =>
    new HttpRefusal(409, 'rollout_id is already in use by a rollout with another body'),
} as const

/** What an admission works with. */
export interface AdmissionParts {
  readonly delivery: Pick<CallbackDelivery, 'deliverPending'>
  /** Undefined: accepted rollouts end with the process. */
  readonly outbox: Outbox | undefined
  readonly work: RunningWork
  readonly secrets: SecretValues
  readonly logger: Logger
  /** Aborted when the server begins to end. */
  readonly ending: AbortSignal
}

/** Where the protocols differ. */
export interface AdmissionRules {
  /** Whether there is no room for one more rollout. */
  readonly isFull: () => boolean
  /** The status of the refusal then. */
  readonly fullStatus: 429 | 503
  /** A repeated request with another body is refused with 409, or answered like the first one. */
  readonly otherBody: 'refuse' | 'ignore'
  /** Whether the id of an ended rollout is still in use; default: none is. */
  readonly isTaken?: (rolloutId: string) => boolean
  /** How a rollout in the outbox ended, without secrets; default: its state cannot be requested. */
  readonly endOf?: (record: OutboxRecord) => RolloutState
  /** How long an ended rollout is remembered. Milliseconds; default 15 minutes. */
  readonly rememberMs?: number | undefined
}

/** A request to run a rollout. */
export interface AdmissionRequest {
  readonly rolloutId: string
  /** What makes two requests the same rollout; default: its id. */
  readonly key?: string
  /** The parsed body: a repeated request must have an equal one. */
  readonly body: unknown
  /**
   * Whether a repeated request is answered like the first one (default). Otherwise it is refused, and
   * the id is free again when the rollout ends, unless `isTaken` reports another use.
   */
  readonly repeatable?: boolean
  /**
   * Whether the outbox stores it (default). A rollout that is answered on the connection of its request
   * ends with the process, because its caller is then disconnected.
   */
  readonly stored?: boolean
  /** Whether there is room for its result; default: it needs none. */
  readonly hasRoom?: () => boolean
  /** Keys of the request, which are redacted from all output while it runs. */
  readonly secrets: readonly (string | null | undefined)[]
  /**
   * Prepares the rollout. If this is synchronous, the rollout starts before another request is
   * handled.
   *
   * @throws HttpRefusal when it cannot be run: that is the answer, and the request is forgotten
   */
  readonly prepare: () => PreparedExecution | Promise<PreparedExecution>
}

/** A rollout that is ready to run. */
interface PreparedExecution {
  /** Body of the 2xx answer: JSON. */
  readonly answer: string
  /** Callbacks to send, in this order, when the process ends while the rollout runs. */
  readonly ifInterrupted: () => readonly Callback[]
  /** SHA-256 of the lease token, in base64; default: results are sent by callbacks. */
  readonly tokenDigest?: string
  /**
   * Runs it and delivers its results. Never rejects.
   *
   * @param record - stores the results; undefined: they are only in memory
   */
  readonly run: (record: OutboxRecord | undefined) => Promise<void>
}

interface AdmissionEntry {
  /** Of the first request's body. */
  readonly digest: string
  /** Rejects when the rollout was not accepted after all. */
  readonly answer: Promise<string>
  /** How it ended, for longer than its backend remembers it. */
  readonly state?: RolloutState | undefined
  /** Retries its delivery, if that was given up. */
  readonly retry?: () => void
  /** Where a running rollout is stored; undefined: only in memory. */
  record?: OutboxRecord
}

/**
 * Decides which rollouts are accepted, and starts each of them once. Checks, in this order: whether
 * the server is ending or fenced (503), whether the rollout is known already, whether there is room.
 * For rollouts that cannot be repeated it checks room first, then whether the id is in use (409). With an
 * outbox, an accepted rollout is on the disk before it starts, and is known after a restart.
 */
export class Admission {
  readonly #parts: AdmissionParts
  readonly #rules: AdmissionRules
  readonly #admitted: RolloutMemory<AdmissionEntry>
  readonly #ids = new AdmittedIds()
  #fenced = false

  constructor(parts: AdmissionParts, rules: AdmissionRules) {
    this.#parts = parts
    this.#rules = rules
    this.#admitted = new RolloutMemory({ maxAgeMs: rules.rememberMs })
  }

  /** Number of ended rollouts that are remembered. */
  get endedCount(): number {
    return this.#admitted.endedCount
  }

  /** Whether rollouts are still accepted. */
  get accepting(): boolean {
    return !this.#fenced && !this.#parts.ending.aborted
  }

  /** The ids of accepted rollouts, the last 100 000 of them. */
  get admittedIds(): string[] {
    return this.#ids.all
  }

  /** How a rollout ended that the outbox remembers, by its key. */
  endOf(key: string): RolloutState | undefined {
    return this.#admitted.get(key)?.state
  }

  /** Whether the rollout would end differently if the process restarted now. */
  isUndecided(key: string): boolean {
    return this.#admitted.get(key)?.record?.undecided === true
  }

  /** Accepts nothing from now on. */
  fence(): void {
    this.#fenced = true
  }

  /**
   * Accepts a rollout and resolves with the body of the answer. By then the rollout has been started, by
   * this or an earlier request. Concurrent requests for one rollout lead to one run.
   *
   * @throws HttpRefusal 409, 422, 429 or 503, the last also when the outbox cannot be written to; or
   * what `prepare` throws
   */
  async admit(requested: AdmissionRequest): Promise<string> {
    const { rolloutId, key = rolloutId, body, repeatable = true } = requested
    const digest = digestOf(body)
    this.#refuseWhenEnding()
    const known = this.#admitted.get(key)
    const taken = this.#rules.isTaken?.(rolloutId) === true
    if (!repeatable) {
      this.#refuseWhenFull(requested)
      if (known !== undefined || taken) throw refusals.registered()
    } else if (known !== undefined) {
      if (known.digest !== digest) this.#contradicted(rolloutId, key)
      known.retry?.()
      return known.answer
    } else if (taken) throw refusals.registered()
    else this.#refuseWhenFull(requested)
    // No await since the first check, so no other request was handled in between.
    const { promise: answer, resolve, reject } = Promise.withResolvers<string>()
    const admitted = { digest, answer }
    this.#admitted.begin(key, admitted)
    this.#start(key, admitted, requested).then(resolve, reject)
    return answer
  }

  /**
   * Continues with rollouts that earlier processes accepted: remembers those that ended, and delivers
   * pending results. `Leases` restores the leased ones.
   */
  resume({ records, ended }: Leftovers): void {
    const now = Date.now()
    for (const { key, digest, answer, state, at } of ended) {
      const ageMs = Math.max(now - at, 0)
      this.#admitted.end(key, { digest, answer: Promise.resolve(answer), state }, ageMs)
    }
    const sent = records.filter(({ acceptance }) => acceptance.answer !== null)
    if (sent.length === 0) return
    const line = { rollouts: sent.length }
    this.#parts.logger.info(line, 'delivering results that an earlier process left')
    for (const record of sent) {
      const { digest, answer } = record.acceptance
      const state = this.#rules.endOf?.(record)
      this.#deliverPending(record, { digest, answer: Promise.resolve(answer ?? ''), state })
    }
  }

  #deliverPending(record: OutboxRecord, known: AdmissionEntry): void {
    this.#admitted.begin(record.acceptance.key, known)
    const forgetSecrets = this.#parts.secrets.add(...record.undelivered.map(({ apiKey }) => apiKey))
    this.#parts.delivery.deliverPending(record, async () => {
      await this.#finish(record, known)
      forgetSecrets()
    })
  }

  /** Ends the rollout, unless its delivery was given up: it then stays known until it is delivered. */
  async #finish(
    record: OutboxRecord,
    { digest, answer, state: end }: AdmissionEntry,
  ): Promise<void> {
    const { key } = record.acceptance
    const state = end ?? this.#rules.endOf?.(record)
    const known = { digest, answer, state }
    if ((await this.#parts.outbox?.finish(record, state)) !== false) this.#admitted.end(key, known)
    else this.#admitted.begin(key, { ...known, retry: () => this.#deliverPending(record, known) })
  }

  async #start(key: string, known: AdmissionEntry, requested: AdmissionRequest): Promise<string> {
    const { rolloutId, secrets, prepare, repeatable = true, stored = true } = requested
    const { logger, work, outbox } = this.#parts
    const forgetSecrets = this.#parts.secrets.add(...secrets)
    let record: OutboxRecord | undefined
    let release: (() => void) | undefined
    try {
      const preparing = prepare()
      const prepared = isPromise(preparing) ? await preparing : preparing
      if (outbox !== undefined && stored) {
        release = outbox.hold()
        record = await this.#store(outbox, { key, digest: known.digest }, requested, prepared)
        known.record = record
      }
      // Other rollouts may have started, or the server may have started to end, during the preparation.
      if (isPromise(preparing) || record !== undefined) {
        this.#refuseWhenEnding()
        this.#refuseWhenFull(requested)
      }
      logger.info({ rollout_id: rolloutId }, 'rollout accepted')
      this.#ids.add(rolloutId)
      const run = async (): Promise<void> => {
        await prepared.run(record)
        if (!repeatable) this.#admitted.drop(key)
        else if (record === undefined) this.#admitted.end(key)
        else await this.#finish(record, known)
      }
      work.start(run, () => {
        forgetSecrets()
        logger.info({ rollout_id: rolloutId }, 'rollout ended')
      })
      return prepared.answer
    } catch (error) {
      await record?.remove()
      this.#admitted.drop(key)
      forgetSecrets()
      throw error
    } finally {
      release?.()
    }
  }

  /** Resolves when a rollout that is about to be accepted survives the process. */
  async #store(
    outbox: Outbox,
    identity: Pick<OutboxAcceptance, 'key' | 'digest'>,
    { rolloutId, repeatable = true }: AdmissionRequest,
    { answer, ifInterrupted, tokenDigest }: PreparedExecution,
  ): Promise<OutboxRecord> {
    try {
      return await outbox.accept({
        ...identity,
        rolloutId,
        answer: repeatable ? answer : null,
        ifInterrupted: ifInterrupted(),
        tokenDigest: tokenDigest ?? null,
      })
    } catch (error) {
      const line = { rollout_id: rolloutId, error }
      this.#parts.logger.error(line, `rollout not accepted: ${errorMessage(error)}`)
      throw refusals.unavailable('the outbox cannot be written to')
    }
  }

  #contradicted(rolloutId: string, key: string): void {
    if (this.#rules.otherBody === 'refuse') throw refusals.contradicted()
    const line = { rollout_id: rolloutId, key }
    this.#parts.logger.warn(line, 'a repeated request has another body; the first one is used')
  }

  #refuseWhenFull({ hasRoom }: AdmissionRequest): void {
    if (!this.#rules.isFull() && hasRoom?.() !== false) return
    throw refusals.full(this.#rules.fullStatus)
  }

  #refuseWhenEnding(): void {
    if (this.#parts.ending.aborted) throw refusals.ending()
    if (this.#fenced) throw refusals.drained()
  }
}

/**
 * Equal JSON values have equal digests, whatever the order of their keys.
 *
 * @throws HttpRefusal 422 for a body that is nested too deeply
 */
export function digestOf(body: unknown): string {
  try {
    return hash('sha256', JSON.stringify(withSortedKeys(body)), 'base64')
  } catch {
    // The recursion overflowed the stack.
    throw new HttpRefusal(422, [
      { type: 'value_error', loc: ['body'], msg: 'is nested too deeply' },
    ])
  }
}

function withSortedKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(withSortedKeys)
  const entries = Object.entries(value).map(([key, inner]) => [key, withSortedKeys(inner)] as const)
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function isPromise<T extends object>(value: T | Promise<T>): value is Promise<T> {
  return 'then' in value
}
