import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import {
  bearer,
  createTransport,
  currentTraceHeaders,
  EgressPolicy,
  isPassingStatus,
  retryRequest,
  startTimer,
  type HttpAnswer,
  type Transport,
} from '@osmosis/core/http'
import { isFinal, type DeliveryOutcome } from '@osmosis/runtime'
import { boundedText } from '@osmosis/runtime/http'

import type { LogFields, Logger } from '../logging/logger.ts'
import type { CallbackFigures } from '../metrics/callback-figures.ts'

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
  /**
   * Gets the body of the acknowledgement, unless it is longer than 64 MiB or breaks off. Not kept:
   * the next process, which sends what this one could not, has nobody to give it to.
   */
  readonly onAcknowledged?: ((body: string) => void) | undefined
}

/** Bytes. Acknowledgements may hold the token ids of every model call. */
const longestAcknowledgement = 64 * 1024 * 1024

/** Where the callbacks of a rollout are kept, by whoever tells them. Nothing here rejects. */
export interface CallbackRecord {
  /** Whether somebody else sends what was given up; default: it stays with this server. */
  readonly passesOn?: boolean
  /**
   * Keeps a callback before it is sent. Resolves with the one that is to be sent, which is the first
   * one of its name that was kept, or with nothing when its fate is known already.
   *
   * @param ifInterrupted - what is to follow it when the process ends then; default: what was to
   * follow before, without this callback
   */
  keep(callback: Callback, ifInterrupted?: readonly Callback[]): Promise<Callback | undefined>
  /** Notes what became of a callback. */
  told(callback: Callback, outcome: DeliveryOutcome): Promise<void>
}

/** Where a callback is kept until it has arrived. */
export interface KeptWith {
  readonly record: CallbackRecord
  /** What is to follow it when the process ends; default: what was to follow before, without it. */
  readonly ifInterrupted?: readonly Callback[] | undefined
}

/** Options of {@link CallbackDelivery}. */
export interface CallbackDeliveryOptions {
  retry?: CallbackRetryOptions | undefined
  /** Where callbacks may go; default: where a policy without options lets them. */
  egress?: EgressPolicy | undefined
  logger: Logger
  /** Counts what is sent. Default: nobody does. */
  figures?: CallbackFigures | undefined
}

/** A callback that is still to be told. Its body is not held: it may be kept on disk alone. */
interface Undelivered {
  /** Milliseconds, as `performance.now` says them. */
  readonly since: number
  /** What was given up and is kept is sent again, by the next process or when its rollout is. */
  state: 'sending' | 'gave_up'
}

/**
 * Posts callbacks until they are acknowledged, refused for good, or out of time. It knows nothing
 * of rollouts: what fails here changes no result. Whoever makes one closes it.
 */
export class CallbackDelivery {
  readonly #retry: Required<{ [K in keyof CallbackRetryOptions]: number }>
  readonly #logger: Logger
  readonly #transport: Transport
  readonly #closing = new AbortController()
  /** Those that are in progress. As listeners of one signal each would be looked for among all others. */
  readonly #attempts = new Set<AbortController>()
  readonly #sendings = new Set<Promise<unknown>>()
  /** Those that were sent before, and given up, count once. */
  readonly #counted = new WeakMap<Callback, Undelivered>()
  readonly #undelivered = new Set<Undelivered>()
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
    // As many connections as one slow controller may hold; further callbacks wait for a free one.
    this.#transport = createTransport({
      name: 'receiver',
      codes: { unreachable: 'protocol_error', refused: 'protocol_error' },
      egress: egress ?? EgressPolicy.of(),
      connectTimeoutMs: Math.min(this.#retry.attemptTimeoutMs, 10_000),
      maxConnections: 256,
    })
  }

  /** Callbacks that are still to be told: on their way, or given up for now and kept. */
  get undelivered(): number {
    return this.#undelivered.size
  }

  /** Callbacks that never will be told: refused for good, or given up and kept nowhere. */
  get lost(): number {
    return this.#lost
  }

  /** Those that are still to be told by what is being done about them. */
  get undeliveredByState(): Record<Undelivered['state'], number> {
    const counts = { sending: 0, gave_up: 0 }
    for (const { state } of this.#undelivered) counts[state] += 1
    return counts
  }

  /** Age of the oldest one that is on its way. Seconds; 0 when none is. */
  get oldestSeconds(): number {
    for (const { state, since } of this.#undelivered) {
      if (state === 'sending') return (performance.now() - since) / 1000
    }
    return 0
  }

  /**
   * Resolves when the fate of the callback is known. Never rejects.
   *
   * @param kept - where it is kept until then; default: in memory alone
   */
  deliver(callback: Callback, kept?: KeptWith): Promise<DeliveryOutcome> {
    this.#count(callback)
    const sending = this.#keepAndSend(callback, kept)
    this.#track(sending)
    return sending
  }

  /**
   * Begins to send all that is still to be told of a rollout, one after the other: a controller
   * hears of the completion before the grading.
   *
   * @param done - called when the fate of all is known; must not reject, and `close` waits for it
   */
  deliverRest(
    record: CallbackRecord & { readonly undelivered: readonly Callback[] },
    done: () => Promise<void>,
  ): void {
    const rest = record.undelivered
    for (const callback of rest) this.#count(callback)
    const send = async (): Promise<void> => {
      for (const callback of rest) await this.#keepAndSend(callback, { record })
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

  /** For `close` to wait for. Nothing that is sent ever rejects. */
  #track(sending: Promise<unknown>): void {
    const tracked = sending.finally(() => this.#sendings.delete(tracked))
    this.#sendings.add(tracked)
  }

  async #keepAndSend(callback: Callback, kept: KeptWith | undefined): Promise<DeliveryOutcome> {
    const first = kept ? await kept.record.keep(callback, kept.ifInterrupted) : callback
    if (first === undefined) {
      this.#forget(callback)
      return 'acknowledged'
    }
    const { onAcknowledged } = callback
    const outcome = await this.#tryUntilKnown({ ...first, onAcknowledged }, kept?.record)
    this.#note(callback, outcome, kept?.record)
    await kept?.record.told(callback, outcome)
    return outcome
  }

  #forget(callback: Callback): void {
    const counted = this.#counted.get(callback)
    if (counted !== undefined) this.#undelivered.delete(counted)
  }

  #note(callback: Callback, outcome: DeliveryOutcome, kept: CallbackRecord | undefined): void {
    this.#figures?.ended(callback.kind, outcome)
    const counted = this.#counted.get(callback)
    const isPending = !isFinal(outcome) && kept !== undefined
    if (counted !== undefined && isPending && kept.passesOn !== true) {
      counted.state = outcome
      return
    }
    this.#forget(callback)
    if (outcome !== 'acknowledged' && !isPending) this.#lost += 1
  }

  async #tryUntilKnown(
    callback: Callback,
    kept: CallbackRecord | undefined,
  ): Promise<DeliveryOutcome> {
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
            if (!this.#isPassing(error)) return false
            // Once for each callback: a controller that restarts keeps thousands waiting.
            this.#logger[attempts === 1 ? 'info' : 'debug'](
              { ...line, attempt: attempts, reason: errorMessage(error) },
              'callback not acknowledged; trying again',
            )
            return true
          },
        },
      )
    } catch (error) {
      const outcome = this.#isPassing(error) || this.#closing.signal.aborted ? 'gave_up' : 'refused'
      const why = { ...line, attempts, outcome, reason: errorMessage(error) }
      const isLeft = kept?.passesOn === true && this.#closing.signal.aborted
      if (isLeft) this.#logger.info(why, 'callback left to another server')
      else this.#logger.error(why, 'callback not delivered')
      return outcome
    }
    return this.#acknowledged({ ...line, attempts })
  }

  #acknowledged(line: LogFields): DeliveryOutcome {
    this.#logger.debug(line, 'callback acknowledged')
    return 'acknowledged'
  }

  /** Gives up everything that is still on its way, and closes the connections. */
  async close(): Promise<void> {
    const reason = new OsmosisError('server_shutdown', 'the server stopped trying')
    this.#closing.abort(reason)
    for (const attempt of this.#attempts) attempt.abort(reason)
    await this.#transport.close()
    while (this.#sendings.size > 0) await Promise.all(this.#sendings)
  }

  /**
   * Whether the next attempt may fare better: not after 409, which says that there is an answer. Only
   * the status counts: `x-should-retry` is about model calls, and must not cost a reward.
   */
  #isPassing(error: unknown): boolean {
    if (!isOsmosisError(error)) return false
    if (error.status !== undefined) return isPassingStatus(error.status)
    return error.code === 'timeout' || this.#transport.isPassing(error)
  }

  async #post({ url, apiKey, idempotencyKey, body, onAcknowledged }: Callback): Promise<void> {
    this.#closing.signal.throwIfAborted()
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
      // The status is the answer: a body that breaks off takes nothing back.
      const said = await acknowledgement(answer.body)
      onAcknowledged?.(said)
    } catch (error) {
      signal.throwIfAborted()
      throw error
    } finally {
      timer.clear()
      this.#attempts.delete(attempt)
    }
  }
}

/** The body of an acknowledgement; '' when it is too long or breaks off. */
async function acknowledgement(body: HttpAnswer['body']): Promise<string> {
  try {
    return (await boundedText(body, longestAcknowledgement)) ?? ''
  } catch {
    return ''
  }
}
