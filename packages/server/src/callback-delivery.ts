import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { parseRetryAfter, retryRequest } from '@osmosis/core/policy'
import { Agent, request } from 'undici'

import { CallbackOutbox, type KeptCallback } from './callback-outbox.ts'
import type { Logger } from './logger.ts'

/** How long and how often a callback is tried. All times are milliseconds. */
export interface CallbackRetryOptions {
  /** Longest time one attempt may take; default 10 s. */
  attemptTimeoutMs?: number | undefined
  /** Wait before the second attempt, doubling from there, with jitter; default 0.5 s. */
  minDelayMs?: number | undefined
  /** Longest wait that the receiver did not ask for; default 30 s. */
  maxDelayMs?: number | undefined
  /** No attempt starts later than this after the first one; default 10 minutes. */
  budgetMs?: number | undefined
  /** Most attempts after the first one; default: as many as the budget has time for. */
  retries?: number | undefined
}

/** One message that has to arrive: built once, never changed on the way. */
export interface Callback {
  /** The rollout it is about, for log lines. */
  readonly rolloutId: string
  /** What it is, for log lines: `completion`, `grader`. */
  readonly kind: string
  readonly url: string
  /** Bearer; none is sent when it is null or empty. */
  readonly apiKey: string | null
  /** Same for every attempt, so that the receiver can tell a repetition from a second message. */
  readonly idempotencyKey: string
  /** JSON. */
  readonly body: string
}

/**
 * What became of a callback: a 2xx acknowledged it, another final status refused it, or the time
 * for trying was over.
 */
export type DeliveryOutcome = 'acknowledged' | 'refused' | 'gave_up'

/** Options of {@link CallbackDelivery}. */
export interface CallbackDeliveryOptions {
  retry?: CallbackRetryOptions | undefined
  /**
   * Folder that keeps every callback until it is acknowledged, so that a later process can send
   * what this one could not; default: callbacks are kept in memory only.
   */
  outboxDir?: string | undefined
  logger: Logger
}

/**
 * Posts callbacks until they are acknowledged, refused for good, or out of time. It knows nothing
 * of rollouts: what fails here changes no result. Whoever makes one closes it.
 */
export class CallbackDelivery {
  readonly #retry: Required<{ [K in keyof CallbackRetryOptions]: number }>
  readonly #logger: Logger
  readonly #agent: Agent
  readonly #closing = new AbortController()
  readonly #attempts = new Set<AbortController>()
  readonly #outbox: CallbackOutbox | undefined
  /** What earlier processes left behind, on its way again. */
  readonly #leftovers = new Set<Promise<void>>()
  #undelivered = 0

  constructor({ retry = {}, outboxDir, logger }: CallbackDeliveryOptions) {
    this.#retry = {
      attemptTimeoutMs: retry.attemptTimeoutMs ?? 10_000,
      minDelayMs: retry.minDelayMs ?? 500,
      maxDelayMs: retry.maxDelayMs ?? 30_000,
      budgetMs: retry.budgetMs ?? 600_000,
      retries: retry.retries ?? Number.POSITIVE_INFINITY,
    }
    this.#logger = logger
    this.#outbox = outboxDir === undefined ? undefined : new CallbackOutbox(outboxDir, logger)
    // As many connections as one slow controller may hold; further callbacks wait for a free one.
    this.#agent = new Agent({
      connections: 256,
      keepAliveTimeout: 30_000,
      connect: { timeout: Math.min(this.#retry.attemptTimeoutMs, 10_000) },
    })
  }

  /** Callbacks that nobody has acknowledged: on their way, refused, or given up. */
  get undelivered(): number {
    return this.#undelivered
  }

  /**
   * Opens the outbox, where there is one, and begins to send what earlier processes left in it.
   *
   * @throws OsmosisError with code `invalid_config` when another process uses the folder, or the
   * error of the file system
   */
  async start(): Promise<void> {
    const left = (await this.#outbox?.open()) ?? []
    if (left.length === 0) return
    this.#logger.info({ callbacks: left.length }, 'sending callbacks that an earlier process left')
    this.#undelivered += left.length
    // One after the other within a rollout: a controller hears of the completion first.
    for (const ofRollout of Map.groupBy(left, ({ callback }) => callback.rolloutId).values()) {
      const sending = this.#sendAll(ofRollout).finally(() => this.#leftovers.delete(sending))
      this.#leftovers.add(sending)
    }
  }

  /** Resolves when the fate of the callback is known. Never rejects. */
  async deliver(callback: Callback): Promise<DeliveryOutcome> {
    this.#undelivered += 1
    return this.#send(callback, await this.#keep(callback))
  }

  async #sendAll(left: readonly KeptCallback[]): Promise<void> {
    for (const kept of left) await this.#send(kept.callback, kept)
  }

  async #send(callback: Callback, kept: KeptCallback | undefined): Promise<DeliveryOutcome> {
    const outcome = await this.#tryUntilKnown(callback)
    try {
      if (outcome === 'acknowledged') await kept?.forget()
      if (outcome === 'refused') await kept?.setAside()
    } catch (error) {
      const { rolloutId, kind } = callback
      this.#logger.error({ rollout_id: rolloutId, callback: kind, error }, 'outbox is out of date')
    }
    return outcome
  }

  /** A full disk costs the safety of a restart, not the callback. */
  async #keep(callback: Callback): Promise<KeptCallback | undefined> {
    try {
      return await this.#outbox?.keep(callback)
    } catch (error) {
      const { rolloutId, kind } = callback
      this.#logger.error({ rollout_id: rolloutId, callback: kind, error }, 'callback not kept')
      return undefined
    }
  }

  async #tryUntilKnown(callback: Callback): Promise<DeliveryOutcome> {
    const line = { rollout_id: callback.rolloutId, callback: callback.kind }
    let attempts = 0
    try {
      await retryRequest(
        async (attemptNumber) => {
          attempts = attemptNumber
          await this.#post(callback)
        },
        {
          retries: this.#retry.retries,
          minDelayMs: this.#retry.minDelayMs,
          maxDelayMs: this.#retry.maxDelayMs,
          totalMs: this.#retry.budgetMs,
          signal: this.#closing.signal,
          isRetryable: (error) => {
            if (!isPassing(error)) return false
            // Once for each callback: a controller that restarts keeps thousands waiting.
            this.#logger[attempts === 1 ? 'info' : 'debug'](
              { ...line, attempt: attempts, reason: errorMessage(error) },
              'callback not acknowledged; trying again',
            )
            return true
          },
        },
      )
      this.#undelivered -= 1
      this.#logger.debug({ ...line, attempts }, 'callback acknowledged')
      return 'acknowledged'
    } catch (error) {
      const outcome = isPassing(error) || this.#closing.signal.aborted ? 'gave_up' : 'refused'
      this.#logger.error(
        { ...line, attempts, outcome, reason: errorMessage(error) },
        'callback not delivered',
      )
      return outcome
    }
  }

  /** Gives up everything that is still on its way, and closes the connections. */
  async close(): Promise<void> {
    const reason = new OsmosisError('server_shutdown', 'the server stopped trying')
    this.#closing.abort(reason)
    for (const attempt of this.#attempts) attempt.abort(reason)
    await this.#agent.destroy()
    await Promise.all(this.#leftovers)
    await this.#outbox?.close()
  }

  async #post({ url, apiKey, idempotencyKey, body }: Callback): Promise<void> {
    this.#closing.signal.throwIfAborted()
    // A controller of its own for each attempt: signals that are joined with one that lives as
    // long as the process would stay reachable from it.
    const attempt = new AbortController()
    this.#attempts.add(attempt)
    const timer = setTimeout(() => {
      attempt.abort(new OsmosisError('timeout', `no answer in ${this.#retry.attemptTimeoutMs} ms`))
    }, this.#retry.attemptTimeoutMs)
    try {
      const {
        statusCode,
        headers,
        body: answer,
      } = await request(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'idempotency-key': idempotencyKey,
          ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
        },
        body,
        signal: attempt.signal,
        dispatcher: this.#agent,
      })
      // The status is the answer: a body that breaks off takes nothing back, and is no error here.
      await answer.dump()
      if (statusCode >= 200 && statusCode < 300) return
      const retryAfter = headers['retry-after']
      throw new OsmosisError('protocol_error', `answered ${statusCode}`, {
        status: statusCode,
        retryAfterMs: parseRetryAfter(Array.isArray(retryAfter) ? retryAfter[0] : retryAfter),
      })
    } finally {
      clearTimeout(timer)
      this.#attempts.delete(attempt)
    }
  }
}

/** Whether the next attempt may fare better. */
function isPassing(error: unknown): boolean {
  if (isOsmosisError(error) && error.status !== undefined) return isPassingStatus(error.status)
  const { code } = error as { code?: unknown }
  // undici's words for a request that cannot be sent at all, such as a key with a line break.
  return code !== 'UND_ERR_INVALID_ARG' && code !== 'UND_ERR_NOT_SUPPORTED'
}

// Not 409: a receiver that says so has an answer of its own for this callback already.
function isPassingStatus(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500
}
