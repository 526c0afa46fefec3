import { hash } from 'node:crypto'

import { errorMessage } from '@osmosis/core'
import type { RolloutState } from '@osmosis/runtime'
import { RolloutMemory } from '@osmosis/runtime/http'

import type { Callback, CallbackDelivery } from '../delivery/callback-delivery.ts'
import type { Leftovers, Outbox } from '../delivery/outbox.ts'
import type { OutboxAcceptance } from '../delivery/outbox-lines.ts'
import type { OutboxRecord } from '../delivery/outbox-record.ts'
import { HttpRefusal } from '../http/http-refusal.ts'
import type { Logger } from '../logging/logger.ts'
import type { SecretValues } from '../logging/secret-values.ts'
import type { RunningWork } from './running-work.ts'

/** Seconds after which a caller that was turned away may ask again. */
const retryAfter = { 'retry-after': '5' }

/** Why a rollout is not accepted: callers act on the status, and people read the text. */
export const refusals = {
  ending: () => new HttpRefusal(503, 'rollout server is shutting down', retryAfter),
  drained: () => new HttpRefusal(503, 'rollout admissions are drained', retryAfter),
  /** @param what - is not there now, as in `the outbox cannot be written to` */
  unavailable: (what: string) => new HttpRefusal(503, `${what}; retry later`, retryAfter),
  full: (status: 429 | 503) =>
    new HttpRefusal(status, 'rollout queue is full; retry later', retryAfter),
  registered: () => new HttpRefusal(409, 'rollout_id is already registered'),
  contradicted: () =>
    new HttpRefusal(409, 'rollout_id is already in use by a rollout with another body'),
} as const

/** What an admission asks, and hands rollouts to. */
export interface AdmissionParts {
  readonly delivery: Pick<CallbackDelivery, 'deliverRest'>
  /** Undefined: what was accepted ends with the process. */
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
  /** What a caller is answered then. */
  readonly fullStatus: 429 | 503
  /** A repeated request with another body: refused with 409, or answered like the first one. */
  readonly otherBody: 'refuse' | 'ignore'
  /** Whether an id is in use although its rollout is over; default: none is. */
  readonly isTaken?: (rolloutId: string) => boolean
  /** How a rollout with an outbox ended, without secrets; default: nobody asks. */
  readonly endOf?: (record: OutboxRecord) => RolloutState
  /** How long an ended rollout is remembered. Milliseconds; default 15 minutes. */
  readonly rememberMs?: number | undefined
}

/** A request to run a rollout. */
export interface AdmissionRequest {
  readonly rolloutId: string
  /** What makes two requests the same rollout; default: its id. */
  readonly key?: string
  /** As the schema left it: what makes a repetition a repetition. */
  readonly body: unknown
  /**
   * Whether a repetition is answered like the first request (default). Otherwise it is refused, and
   * its id is free again when the rollout is over, unless somebody else has taken it.
   */
  readonly repeatable?: boolean
  /**
   * Whether an outbox keeps it, where there is one (default). What is answered on the connection that
   * asks for it ends with the process, and nobody is left to tell.
   */
  readonly kept?: boolean
  /** Whether its result has room; default: it needs none. */
  readonly hasRoom?: () => boolean
  /** Keys that came with it, kept out of everything that is written while it runs. */
  readonly secrets: readonly (string | null | undefined)[]
  /**
   * Gets the rollout ready. What is ready at once is started at once, before another request can be
   * looked at.
   *
   * @throws HttpRefusal when it cannot be run: the request is answered with it, and forgotten
   */
  readonly prepare: () => PreparedExecution | Promise<PreparedExecution>
}

/** A rollout that is ready to run. */
interface PreparedExecution {
  /** Body of the answer that accepts it: JSON. */
  readonly answer: string
  /** What is to be sent, in this order, when the process ends while it runs. */
  readonly ifInterrupted: () => readonly Callback[]
  /** SHA-256 of the token with which its result is fetched, in base64; default: it is sent. */
  readonly tokenDigest?: string
  /**
   * Runs it and delivers its results. Never rejects.
   *
   * @param record - where its results are kept; undefined: in memory alone
   */
  readonly run: (record: OutboxRecord | undefined) => Promise<void>
}

interface AdmissionEntry {
  /** Of the body that began it. */
  readonly digest: string
  /** Rejects when the rollout was not accepted after all. */
  readonly answer: Promise<string>
  /** How it ended, where that is known for longer than its backend knows it. */
  readonly state?: RolloutState | undefined
  /** Where its delivery was given up: tries once more. */
  readonly again?: () => void
  /** Where it is kept while it runs; undefined: in memory alone. */
  record?: OutboxRecord
}

const defaultRememberMs = 15 * 60_000

/** More ids than this are not listed: a server may run for months. */
const mostIds = 100_000

/**
 * Decides which rollouts are accepted, and starts those, each once. Checks, in this order: whether
 * the server is ending or fenced (503), whether the rollout is known already, whether there is room.
 * For those that cannot be repeated room comes first, then whether the id is in use (409). With an
 * outbox, what is accepted is on the disk before it is started, and known after a restart.
 */
export class Admission {
  readonly #parts: AdmissionParts
  readonly #rules: AdmissionRules
  readonly #admitted: RolloutMemory<AdmissionEntry>
  readonly #ids = new Set<string>()
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

  /** The ids of all rollouts that were accepted, the last 100 000 of them. */
  get admittedIds(): string[] {
    return [...this.#ids].slice(-mostIds)
  }

  /** How a rollout ended that an outbox remembers, by what makes two requests the same rollout. */
  endOf(key: string): RolloutState | undefined {
    return this.#admitted.get(key)?.state
  }

  /** Whether a restart would end the rollout otherwise than it has ended, or will. */
  isUndecided(key: string): boolean {
    return this.#admitted.get(key)?.record?.undecided === true
  }

  /** Accepts nothing from now on. */
  fence(): void {
    this.#fenced = true
  }

  /**
   * Accepts a rollout and resolves with the body of the answer: when it does, the rollout has been
   * started, now or by an earlier request. Requests for one rollout, however many come at the same
   * time, lead to one run.
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
      known.again?.()
      return known.answer
    } else if (taken) throw refusals.registered()
    else this.#refuseWhenFull(requested)
    // Nothing has been waited for since the first check, so no other request came in between.
    const { promise: answer, resolve, reject } = Promise.withResolvers<string>()
    const admitted = { digest, answer }
    this.#admitted.begin(key, admitted)
    this.#start(key, admitted, requested).then(resolve, reject)
    return answer
  }

  /**
   * Takes up what earlier processes accepted: what ended is remembered, what is still to be told is
   * told, and the rollout is known meanwhile. Leased rollouts are none of its business.
   */
  resume({ records, ended }: Leftovers): void {
    const oldest = Date.now() - (this.#rules.rememberMs ?? defaultRememberMs)
    for (const { key, digest, answer, state, at } of ended) {
      if (at > oldest) this.#admitted.end(key, { digest, answer: Promise.resolve(answer), state })
    }
    const sent = records.filter(({ acceptance }) => acceptance.answer !== null)
    if (sent.length === 0) return
    const line = { rollouts: sent.length }
    this.#parts.logger.info(line, 'delivering results that an earlier process left')
    for (const record of sent) {
      const { digest, answer } = record.acceptance
      const state = this.#rules.endOf?.(record)
      this.#tellRest(record, { digest, answer: Promise.resolve(answer ?? ''), state })
    }
  }

  #tellRest(record: OutboxRecord, known: AdmissionEntry): void {
    this.#admitted.begin(record.acceptance.key, known)
    const forgetSecrets = this.#parts.secrets.add(...record.undelivered.map(({ apiKey }) => apiKey))
    this.#parts.delivery.deliverRest(record, async () => {
      await this.#finish(record, known)
      forgetSecrets()
    })
  }

  /** A rollout whose results were given up is known until they have arrived. */
  async #finish(
    record: OutboxRecord,
    { digest, answer, state: end }: AdmissionEntry,
  ): Promise<void> {
    const { key } = record.acceptance
    const state = end ?? this.#rules.endOf?.(record)
    const known = { digest, answer, state }
    if ((await this.#parts.outbox?.finish(record, state)) !== false) this.#admitted.end(key, known)
    else this.#admitted.begin(key, { ...known, again: () => this.#tellRest(record, known) })
  }

  async #start(key: string, known: AdmissionEntry, requested: AdmissionRequest): Promise<string> {
    const { rolloutId, secrets, prepare, repeatable = true, kept = true } = requested
    const { logger, work, outbox } = this.#parts
    const forgetSecrets = this.#parts.secrets.add(...secrets)
    let record: OutboxRecord | undefined
    try {
      const preparing = prepare()
      const prepared = isPromise(preparing) ? await preparing : preparing
      if (outbox !== undefined && kept) {
        record = await this.#keep(outbox, { key, digest: known.digest }, requested, prepared)
        known.record = record
      }
      // Others may have been started, or the end started, while this one got ready.
      if (isPromise(preparing) || record !== undefined) this.#refuseWhenUnwelcome(requested)
      logger.info({ rollout_id: rolloutId }, 'rollout accepted')
      this.#list(rolloutId)
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
    }
  }

  /** Resolves when a rollout that is about to be accepted survives the process. */
  async #keep(
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
    this.#parts.logger.warn(line, 'a repeated request has another body; the first one counts')
  }

  #list(rolloutId: string): void {
    this.#ids.add(rolloutId)
    // Many at once: the first of a set is found by going past all that were deleted before it.
    let surplus = this.#ids.size - mostIds
    if (surplus < mostIds / 10) return
    for (const oldest of this.#ids) {
      this.#ids.delete(oldest)
      surplus -= 1
      if (surplus === 0) return
    }
  }

  #refuseWhenUnwelcome(requested: AdmissionRequest): void {
    this.#refuseWhenEnding()
    this.#refuseWhenFull(requested)
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
 * @throws HttpRefusal 422 for what is nested too deeply
 */
export function digestOf(body: unknown): string {
  try {
    return hash('sha256', JSON.stringify(withSortedKeys(body)), 'base64')
  } catch {
    // The walk through it overflowed the stack.
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
