import { randomUUID } from 'node:crypto'

import { errorMessage, OsmosisError } from '@osmosis/core'
import type { TraceHeaders } from '@osmosis/core/http'
import type { RolloutRequest } from '@osmosis/protocol'
import type { Logger } from '@osmosis/server'
import {
  AdmittedIds,
  digestOf,
  HttpRefusal,
  newLease,
  refusals,
  toRolloutRequest,
  toTargets,
  type RolloutBody,
  type CallbackTargets,
  type LeaseSettings,
  type RolloutAdmission,
} from '@osmosis/server/protocols'

import { isUnavailable, refusalWord, retryUntil } from '../connection/queue-retries.ts'
import type { RolloutQueue } from '../queue/rollout-queue.ts'

/** Data that a server needs to deliver the outcome of a rollout, stored with the rollout. */
export interface QueuedDelivery {
  /** Where callbacks are sent; undefined when the result is fetched. */
  readonly targets?: CallbackTargets
  readonly extraFields: Readonly<Record<string, unknown>> | null
  /** Copied from the request, which is large and is not always read. */
  readonly grade: boolean
  readonly apiKey: RolloutRequest['apiKey']
  readonly traceHeaders: RolloutRequest['traceHeaders']
}

/** Dependencies of an admission. */
export interface QueueAdmissionParts {
  readonly queue: RolloutQueue
  readonly leases: LeaseSettings
  /** Digest of the code that may execute accepted rollouts. */
  readonly code: string
  readonly maxQueueDepth: number | undefined
  readonly logger: Logger
  /** Aborted when the server starts to shut down. */
  readonly ending: AbortSignal
}

/** How long the acceptance of a lease is retried while Redis is unreachable. Milliseconds. */
const finishMs = 30_000

/** Accepts rollouts for all servers of a queue; each rollout is accepted once. */
export class QueueAdmission implements RolloutAdmission {
  readonly #parts: QueueAdmissionParts
  readonly #ids = new AdmittedIds()
  #fenced = false

  constructor(parts: QueueAdmissionParts) {
    this.#parts = parts
  }

  /** Whether this server accepts rollouts. */
  get accepting(): boolean {
    return !this.#fenced && !this.#parts.ending.aborted
  }

  /** The ids of the last 100 000 rollouts that this server accepted. */
  get admittedIds(): string[] {
    return this.#ids.all
  }

  /** Makes this server refuse new rollouts. */
  fence(): void {
    this.#fenced = true
  }

  async accept(asked: RolloutBody, trace: TraceHeaders): Promise<string> {
    if (this.#parts.ending.aborted) throw refusals.ending()
    if (this.#fenced) throw refusals.drained()
    const rolloutId = asked.body.rollout_id ?? randomUUID()
    return reached(
      async () =>
        asked.kind === 'lease'
          ? this.#acceptLease(asked, rolloutId, trace)
          : this.#acceptCallbacks(asked, rolloutId, trace),
      (why) => {
        this.#parts.logger.warn({ rollout_id: rolloutId }, `rollout refused: ${why}`)
      },
    )
  }

  async #acceptCallbacks(
    asked: Extract<RolloutBody, { kind: 'callbacks' }>,
    rolloutId: string,
    trace: TraceHeaders,
  ): Promise<string> {
    const targets = toTargets(rolloutId, asked.body)
    const result = await this.#accept(asked, rolloutId, trace, { targets }, { answer: '{}' })
    if (result === 'full') throw refusals.full(429)
    if (result === 'contradicted') throw refusals.contradicted()
    return '{}'
  }

  async #acceptLease(
    asked: Extract<RolloutBody, { kind: 'lease' }>,
    rolloutId: string,
    trace: TraceHeaders,
  ): Promise<string> {
    const { leases, queue } = this.#parts
    if (!(await queue.leases.makeRoom(leases))) throw refusals.full(429)
    const { answer, tokenDigest } = newLease(rolloutId, leases)
    const lease = { tokenDigest, ms: leases.leaseSeconds * 1000 }
    // Its answer is not stored, because it contains the token.
    const options = { answer: '', gradesAtOnce: true, lease }
    // The record may have been written before Redis was lost. A refused caller that retries would find its
    // id taken, so this server retries instead.
    const signal = AbortSignal.any([this.#parts.ending, AbortSignal.timeout(finishMs)])
    // A Redis that refused the record has not written it, and may refuse for long.
    const result = await retryUntil(
      signal,
      async () => this.#accept(asked, rolloutId, trace, {}, options),
      (error) => isUnavailable(error) && refusalWord(error) === undefined,
    )
    if (result === 'full') throw refusals.full(429)
    if (result !== 'new') throw refusals.registered()
    return answer
  }

  async #accept(
    asked: RolloutBody,
    rolloutId: string,
    trace: TraceHeaders,
    { targets }: Pick<QueuedDelivery, 'targets'>,
    options: Pick<Parameters<RolloutQueue['accept']>[0], 'answer' | 'gradesAtOnce' | 'lease'>,
  ): Promise<'new' | 'known' | 'contradicted' | 'full'> {
    const { queue, code, maxQueueDepth, logger } = this.#parts
    const request = toRolloutRequest(asked, rolloutId, trace)
    const delivery: QueuedDelivery = {
      ...(targets === undefined ? {} : { targets }),
      extraFields: asked.body.extra_fields ?? null,
      grade: request.grade,
      apiKey: request.apiKey,
      traceHeaders: request.traceHeaders,
    }
    const entry = {
      id: rolloutId,
      kind: asked.kind,
      digest: digestOf(asked.body),
      code,
      request,
      delivery,
      priority: priorityOf(request),
      ...options,
    } as const
    const { result } = await queue.accept(entry, { mostQueued: maxQueueDepth })
    if (result === 'new') {
      logger.info({ rollout_id: rolloutId }, 'rollout accepted')
      this.#ids.add(rolloutId)
    }
    return result
  }
}

/** Runs a function that needs the queue, and refuses the request when the queue is unreachable. */
export async function reached<T>(
  act: () => Promise<T>,
  onUnreached: (why: string) => void = () => {},
): Promise<T> {
  try {
    return await act()
  } catch (error) {
    if (isUnavailable(error)) {
      onUnreached(errorMessage(error))
      const word = refusalWord(error)
      throw refusals.unavailable(
        word === undefined
          ? 'the queue cannot be reached'
          : `the Redis of the queue refuses it (${word})`,
      )
    }
    if (!(error instanceof RangeError)) throw error
    throw new HttpRefusal(422, [
      { type: 'value_error', loc: ['body'], msg: 'is nested too deeply' },
    ])
  }
}

/** @throws HttpRefusal 422 for an invalid priority */
function priorityOf(request: RolloutRequest): number | undefined {
  try {
    return queuePriority(request)
  } catch (error) {
    const loc = ['body', 'metadata', 'osmosis_priority']
    throw new HttpRefusal(422, [{ type: 'value_error', loc, msg: errorMessage(error) }])
  }
}

const priorityKey = 'osmosis_priority'
const lowestPriority = 2_097_152

/**
 * The priority of a rollout in the queue, from `osmosis_priority` of its metadata: a whole number from 1 to
 * 2,097,152. Rollouts without one run first, then those with 1, and so on; equal ones run in the order of
 * their acceptance.
 *
 * @throws OsmosisError with code `invalid_request`
 */
function queuePriority({ metadata }: Pick<RolloutRequest, 'metadata'>): number | undefined {
  const priority = metadata?.[priorityKey] ?? undefined
  if (priority === undefined) return undefined
  if (typeof priority === 'number' && Number.isInteger(priority)) {
    if (priority >= 1 && priority <= lowestPriority) return priority
  }
  throw new OsmosisError(
    'invalid_request',
    `${priorityKey} of the metadata must be a whole number from 1 to ${lowestPriority}, got ${JSON.stringify(priority)}. Leave it out to run first.`,
  )
}
