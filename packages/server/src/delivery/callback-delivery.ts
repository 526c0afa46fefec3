import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import {
  bearer,
  createTransport,
  currentTraceHeaders,
  EgressPolicy,
  isTransientStatus,
  retryRequest,
  startTimer,
  type HttpResponse,
  type Transport,
} from '@osmosis/core/http'
import { isFinal, type DeliveryOutcome } from '@osmosis/protocol'
import { boundedText } from '@osmosis/protocol/http'

import { ConcurrencyLimiter } from '../execution/slots/concurrency-limiter.ts'
import type { Callback } from '../journal/outbox-lines.ts'
import type { Logger } from '../logging/logger.ts'
import type { CallbackFigures } from '../metrics/server-metrics.ts'

/** Limits of the attempts to deliver a callback. All times are milliseconds. */
export interface CallbackRetryOptions {
  /** Longest time one attempt may take; default 10 s. */
  attemptTimeoutMs?: number | undefined
  /** Delay before the second attempt; doubles with each one, with jitter; default 0.5 s. */
  minDelayMs?: number | undefined
  /** Longest delay, unless the receiver requests a longer one; default 30 s. */
  maxDelayMs?: number | undefined
  /** No attempt starts later than this after the first; default 10 minutes. */
  budgetMs?: number | undefined
  /** Maximum attempts after the first; default: limited only by the budget. */
  retries?: number | undefined
}

/** Bytes. Acknowledgements may contain the token ids of every model call. */
const maxAcknowledgementBytes = 64 * 1024 * 1024

/** Stores the callbacks of a rollout for their delivery. Nothing here rejects. */
export interface CallbackRecord {
  /** Whether another server sends the callbacks that this one gives up; default false. */
  readonly isShared?: boolean
  /**
   * Stores a callback before it is sent. Resolves with the callback to send, which is the first one stored
   * with this idempotency key, or with undefined when it has an outcome already.
   *
   * @param ifInterrupted - callbacks to send after it when the process ends then; default: as before,
   * without this callback
   */
  store(callback: Callback, ifInterrupted?: readonly Callback[]): Promise<Callback | undefined>
  /** Stores the outcome of a callback. */
  settle(callback: Callback, outcome: DeliveryOutcome): Promise<void>
}

/** Where a callback is stored until it is delivered. */
export interface CallbackStorage {
  readonly record: CallbackRecord
  /** Callbacks to send after it when the process ends; default: as before, without this callback. */
  readonly ifInterrupted?: readonly Callback[] | undefined
}

/** Options of {@link CallbackDelivery}. */
export interface CallbackDeliveryOptions {
  retry?: CallbackRetryOptions | undefined
  /** Allowed receivers; default: those of a policy without options. */
  egress?: EgressPolicy | undefined
  logger: Logger
  /** Counts attempts and outcomes. */
  figures?: CallbackFigures | undefined
}

/** A pending callback. It does not hold the body, which may be on disk only. */
interface PendingCallback {
  /** As `performance.now()`. */
  readonly since: number
  /** A stored callback that was given up is sent again by the next process, or when its request is repeated. */
  state: 'sending' | 'gave_up'
}

/** How many requests one receiver gets at the same time; further callbacks wait. */
const maxRequests = 256

/**
 * Posts callbacks until they are acknowledged, refused permanently, or out of time. A failed delivery does not
 * change a result. The caller closes it.
 */
export class CallbackDelivery {
  readonly #retry: Required<{ [K in keyof CallbackRetryOptions]: number }>
  readonly #logger: Logger
  readonly #transport: Transport
  readonly #closing = new AbortController()
  /** Running attempts. Removing a listener of one shared signal would search through all others. */
  readonly #attempts = new Set<AbortController>()
  readonly #sendings = new Set<Promise<unknown>>()
  /** A callback that is sent again after it was given up counts once. */
  readonly #counted = new WeakMap<Callback, PendingCallback>()
  readonly #undelivered = new Set<PendingCallback>()
  /** By the origin of a receiver. */
  readonly #slots = new Map<string, ConcurrencyLimiter>()
  #lost = 0
  readonly #figures: CallbackFigures | undefined

  constructor({ retry = {}, egress, logger, figures }: CallbackDeliveryOptions) {
    this.#figures = figures
    this.#retry = {
      attemptTimeoutMs: retry.attemptTimeoutMs ?? 10_000,
      minDelayMs: retry.minDelayMs ?? 500,
      maxDelayMs: retry.maxDelayMs ?? 30_000,
      budgetMs: retry.budgetMs ?? 600_000,
      retries: retry.retries ?? Number.POSITIVE_INFINITY,
    }
    this.#logger = logger
    this.#transport = createTransport({
      name: 'receiver',
      codes: { unreachable: 'protocol_error', refused: 'protocol_error' },
      egress: egress ?? EgressPolicy.of(),
      connectTimeoutMs: Math.min(this.#retry.attemptTimeoutMs, 10_000),
    })
  }

  /** Number of pending callbacks: being sent, or given up for now and stored. */
  get undelivered(): number {
    return this.#undelivered.size
  }

  /** Number of callbacks that will never be delivered: refused, or given up and not stored. */
  get lost(): number {
    return this.#lost
  }

  get undeliveredByState(): Record<PendingCallback['state'], number> {
    const counts = { sending: 0, gave_up: 0 }
    for (const { state } of this.#undelivered) counts[state] += 1
    return counts
  }

  /** Age of the oldest callback that is being sent. Seconds; 0 when there is none. */
  get oldestSeconds(): number {
    for (const { state, since } of this.#undelivered) {
      if (state === 'sending') return (performance.now() - since) / 1000
    }
    return 0
  }

  /**
   * Resolves with the outcome of the callback. Never rejects.
   *
   * @param storage - where it is stored until then; default: only in memory
   */
  deliver(callback: Callback, storage?: CallbackStorage): Promise<DeliveryOutcome> {
    this.#count(callback)
    const sending = this.#storeAndSend(callback, storage)
    this.#track(sending)
    return sending
  }

  /**
   * Starts to send all pending callbacks of a rollout, one after the other: a controller
   * gets the completion before the grading.
   *
   * @param done - called when all have an outcome; must not reject, and `close` waits for it
   */
  deliverPending(
    record: CallbackRecord & { readonly undelivered: readonly Callback[] },
    done: () => Promise<void>,
  ): void {
    const pending = record.undelivered
    for (const callback of pending) this.#count(callback)
    const send = async (): Promise<void> => {
      for (const callback of pending) await this.#storeAndSend(callback, { record })
      await done()
    }
    this.#track(send())
  }

  #count(callback: Callback): void {
    const known = this.#counted.get(callback)
    const counted = known ?? { since: performance.now(), state: 'sending' }
    counted.state = 'sending'
    this.#counted.set(callback, counted)
    this.#undelivered.add(counted)
  }

  /** Makes `close` wait for it. Sending never rejects. */
  #track(sending: Promise<unknown>): void {
    const tracked = sending.finally(() => this.#sendings.delete(tracked))
    this.#sendings.add(tracked)
  }

  async #storeAndSend(
    callback: Callback,
    { record, ifInterrupted }: Partial<CallbackStorage> = {},
  ): Promise<DeliveryOutcome> {
    const first = record ? await record.store(callback, ifInterrupted) : callback
    if (first === undefined) {
      this.#forget(callback)
      return 'acknowledged'
    }
    const { onAcknowledged } = callback
    const outcome = await this.#sendUntilSettled({ ...first, onAcknowledged }, record)
    this.#countOutcome(callback, outcome, record)
    await record?.settle(callback, outcome)
    return outcome
  }

  #forget(callback: Callback): void {
    const counted = this.#counted.get(callback)
    if (counted !== undefined) this.#undelivered.delete(counted)
  }

  #countOutcome(callback: Callback, outcome: DeliveryOutcome, record?: CallbackRecord): void {
    this.#figures?.ended(callback.kind, outcome)
    const counted = this.#counted.get(callback)
    const isPending = !isFinal(outcome) && record !== undefined
    if (counted !== undefined && isPending && record.isShared !== true) {
      counted.state = outcome
      return
    }
    this.#forget(callback)
    if (outcome !== 'acknowledged' && !isPending) this.#lost += 1
  }

  async #sendUntilSettled(callback: Callback, record?: CallbackRecord): Promise<DeliveryOutcome> {
    const line = { rollout_id: callback.rolloutId, callback: callback.kind }
    let attempts = 0
    try {
      await retryRequest(
        (attemptNumber) => {
          attempts = attemptNumber
          this.#figures?.attempted(callback.kind)
          return this.#post(callback)
        },
        {
          retries: this.#retry.retries,
          minDelayMs: this.#retry.minDelayMs,
          maxDelayMs: this.#retry.maxDelayMs,
          totalMs: this.#retry.budgetMs,
          signal: this.#closing.signal,
          isRetryable: (error) => {
            if (!this.#isTransient(error)) return false
            // At info once per callback: a controller that restarts delays thousands of callbacks.
            this.#logger[attempts === 1 ? 'info' : 'debug'](
              { ...line, attempt: attempts, reason: errorMessage(error) },
              'callback not acknowledged; retrying',
            )
            return true
          },
        },
      )
    } catch (error) {
      const outcome =
        this.#isTransient(error) || this.#closing.signal.aborted ? 'gave_up' : 'refused'
      const why = { ...line, attempts, outcome, reason: errorMessage(error) }
      const isLeft = record?.isShared === true && this.#closing.signal.aborted
      if (isLeft) this.#logger.info(why, 'callback left to another server')
      else this.#logger.error(why, 'callback not delivered')
      return outcome
    }
    this.#logger.debug({ ...line, attempts }, 'callback acknowledged')
    return 'acknowledged'
  }

  /** Gives up all callbacks that are being sent, and closes the connections. */
  async close(): Promise<void> {
    const reason = new OsmosisError('server_shutdown', 'the server stopped retrying')
    this.#closing.abort(reason)
    for (const attempt of this.#attempts) attempt.abort(reason)
    await this.#transport.close()
    while (this.#sendings.size > 0) await Promise.all(this.#sendings)
  }

  /**
   * Whether a retry may succeed: not after 409, which means that the receiver has an answer already. Only the
   * status counts: `x-should-retry` is for model calls, and must not lose a reward.
   */
  #isTransient(error: unknown): boolean {
    if (!isOsmosisError(error)) return false
    if (error.status !== undefined) return isTransientStatus(error.status)
    return error.code === 'timeout' || this.#transport.isTransient(error)
  }

  async #post({ url, apiKey, idempotencyKey, body, onAcknowledged }: Callback): Promise<void> {
    const release = await this.#slot(url)
    const limitMs = this.#retry.attemptTimeoutMs
    const attempt = new AbortController()
    const { signal } = attempt
    const timer = startTimer(limitMs, () =>
      attempt.abort(new OsmosisError('timeout', `no answer in ${limitMs} ms`)),
    )
    this.#attempts.add(attempt)
    try {
      const answer = await this.#transport.post(url, {
        headers: {
          'content-type': 'application/json',
          'idempotency-key': idempotencyKey,
          ...bearer(apiKey),
          ...currentTraceHeaders(),
        },
        body,
        signal,
      })
      // The status alone acknowledges: an incomplete body does not matter.
      const text = await acknowledgement(answer.body)
      onAcknowledged?.(text)
    } catch (error) {
      signal.throwIfAborted()
      throw error
    } finally {
      timer.clear()
      this.#attempts.delete(attempt)
      release()
    }
  }

  /** Waits for its turn among the requests to one receiver. */
  async #slot(url: string): Promise<() => void> {
    const { origin } = new URL(url)
    const slots = this.#slots.get(origin) ?? new ConcurrencyLimiter(maxRequests)
    this.#slots.set(origin, slots)
    const release = await slots.acquire(this.#closing.signal)
    return () => {
      release()
      if (slots.running === 0) this.#slots.delete(origin)
    }
  }
}

/** The body of an acknowledgement; '' when it is too long or incomplete. */
async function acknowledgement(body: HttpResponse['body']): Promise<string> {
  try {
    return (await boundedText(body, maxAcknowledgementBytes)) ?? ''
  } catch {
    return ''
  }
}
