import { createHash } from 'node:crypto'

import { RolloutMemory } from '@osmosis/core/http'

import type { CallbackDelivery } from '../delivery/callback-delivery.ts'
import { HttpRefusal } from '../http/http-refusal.ts'
import type { Logger } from '../logging/logger.ts'
import type { SecretValues } from '../logging/secret-values.ts'
import type { RunningWork } from './running-work.ts'

/** Seconds after which a caller that was turned away may ask again. */
const retryAfter = { 'retry-after': '5' }

/** What an admission asks, and hands rollouts to. */
export interface AdmissionParts {
  readonly delivery: Pick<CallbackDelivery, 'owes'>
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
  /** How long an ended rollout is remembered. Milliseconds; default 15 minutes. */
  readonly rememberMs?: number | undefined
}

/** A request to run a rollout. */
export interface RequestedRollout {
  readonly rolloutId: string
  /** What makes two requests the same rollout; default: its id. */
  readonly key?: string
  /** As the schema left it: what makes a repetition a repetition. */
  readonly body: unknown
  /** Keys that came with it, kept out of everything that is written while it runs. */
  readonly secrets: readonly (string | null | undefined)[]
  /**
   * Gets the rollout ready. What is ready at once is started at once, before another request can be
   * looked at.
   *
   * @throws HttpRefusal when it cannot be run: the request is answered with it, and forgotten
   */
  readonly prepare: () => PreparedRollout | Promise<PreparedRollout>
}

/** A rollout that is ready to run. */
interface PreparedRollout {
  /** Body of the answer that accepts it: JSON. */
  readonly answer: string
  /** Runs it and delivers its results. Never rejects. */
  readonly run: () => Promise<void>
}

interface AdmittedRollout {
  /** Of the body that began it. */
  readonly digest: string
  /** Rejects when the rollout was not accepted after all. */
  readonly answer: Promise<string>
}

/**
 * Decides which rollouts are accepted, and starts those, each once. Checks, in this order: whether
 * the server is ending (503), whether the rollout is known already, whether results of it from
 * before a restart are still on their way (503), whether there is room.
 */
export class Admission {
  readonly #parts: AdmissionParts
  readonly #rules: AdmissionRules
  readonly #admitted: RolloutMemory<AdmittedRollout>

  constructor(parts: AdmissionParts, rules: AdmissionRules) {
    this.#parts = parts
    this.#rules = rules
    this.#admitted = new RolloutMemory({ maxAgeMs: rules.rememberMs })
  }

  /** Number of ended rollouts that are remembered. */
  get endedCount(): number {
    return this.#admitted.endedCount
  }

  /**
   * Accepts a rollout and resolves with the body of the answer: when it does, the rollout has been
   * started, now or by an earlier request. Requests for one rollout, however many come at the same
   * time, lead to one run.
   *
   * @throws HttpRefusal 409, 422, 429 or 503, or what `prepare` throws
   */
  async admit(requested: RequestedRollout): Promise<string> {
    const { rolloutId, key = rolloutId, body } = requested
    const digest = digestOf(body)
    this.#refuseWhenEnding()
    const known = this.#admitted.get(key)
    if (known !== undefined) {
      if (known.digest !== digest) this.#contradicted(rolloutId, key)
      return known.answer
    }
    if (this.#parts.delivery.owes(rolloutId)) {
      const detail = 'results of this rollout from before a restart are still being delivered'
      throw new HttpRefusal(503, detail, retryAfter)
    }
    this.#refuseWhenFull()
    // Nothing has been waited for since the first check, so no other request came in between.
    const { promise: answer, resolve, reject } = Promise.withResolvers<string>()
    this.#admitted.begin(key, { digest, answer })
    this.#start(key, requested).then(resolve, reject)
    return answer
  }

  async #start(key: string, { rolloutId, secrets, prepare }: RequestedRollout): Promise<string> {
    const { logger, work } = this.#parts
    const forgetSecrets = this.#parts.secrets.add(...secrets)
    try {
      const preparing = prepare()
      const { answer, run } = isPromise(preparing) ? await this.#stillWelcome(preparing) : preparing
      logger.info({ rollout_id: rolloutId }, 'rollout accepted')
      work.start(run, () => {
        this.#admitted.end(key)
        forgetSecrets()
        logger.info({ rollout_id: rolloutId }, 'rollout ended')
      })
      return answer
    } catch (error) {
      this.#admitted.drop(key)
      forgetSecrets()
      throw error
    }
  }

  /** Others may have been started, or the end begun, while this one got ready. */
  async #stillWelcome(preparing: Promise<PreparedRollout>): Promise<PreparedRollout> {
    const prepared = await preparing
    this.#refuseWhenEnding()
    this.#refuseWhenFull()
    return prepared
  }

  #contradicted(rolloutId: string, key: string): void {
    if (this.#rules.otherBody === 'refuse') {
      throw new HttpRefusal(409, 'rollout_id is already in use by a rollout with another body')
    }
    const line = { rollout_id: rolloutId, key }
    this.#parts.logger.warn(line, 'a repeated request has another body; the first one counts')
  }

  #refuseWhenFull(): void {
    if (!this.#rules.isFull()) return
    const detail = 'rollout queue is full; retry later'
    throw new HttpRefusal(this.#rules.fullStatus, detail, retryAfter)
  }

  #refuseWhenEnding(): void {
    if (!this.#parts.ending.aborted) return
    throw new HttpRefusal(503, 'rollout server is shutting down', retryAfter)
  }
}

/** Equal JSON values have equal digests, whatever the order of their keys. */
function digestOf(body: unknown): string {
  try {
    const canonical = JSON.stringify(body, (_, inner: unknown) => withSortedKeys(inner))
    return createHash('sha256').update(canonical).digest('base64')
  } catch {
    // The walk through it overflowed the stack.
    throw new HttpRefusal(422, [
      { type: 'value_error', loc: ['body'], msg: 'is nested too deeply' },
    ])
  }
}

function withSortedKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const entries = Object.entries(value)
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function isPromise<T extends object>(value: T | Promise<T>): value is Promise<T> {
  return 'then' in value
}
