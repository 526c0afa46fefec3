import type { RolloutSample } from '@osmosis/core'
import type { EgressPolicy, TraceHeaders } from '@osmosis/core/http'
import type { ExecutionBackend } from '@osmosis/protocol'
import { RolloutMemory } from '@osmosis/protocol/http'
import {
  flushRequestSchema,
  flushResponseSchema,
  runRequestSchema,
  runResponseSchema,
  type FlushRequestBody,
  type FlushResponseBody,
  type RunRequestBody,
} from '@osmosis/protocol/wire'

import type { ExecutionOutcome } from '../execution/rollout-end.ts'
import type { Admission } from '../http/admission.ts'
import { reachableUrl } from '../http/request-body.ts'
import {
  jsonAnswer,
  jsonTextAnswer,
  traceHeadersOf,
  type ServerRoute,
} from '../http/server-route.ts'
import type { Logger } from '../logging/logger.ts'
import type { RolloutRequests } from '../rollout/rollout-requests.ts'
import { warnOfStepRewards } from '../rollout/server-stages.ts'
import { RowGroups } from './row-groups.ts'
import { toRunAnswer } from './run-answer.ts'
import { type PostedRow, rowIn, toRunRequest, type RunRouteOptions } from './run-request.ts'

/** `POST /run` and `POST /flush`. */
export function runRoutes(runs: Runs, egress: EgressPolicy): ServerRoute[] {
  const run: ServerRoute<RunRequestBody> = {
    method: 'POST',
    path: '/run',
    summary: 'Run a rollout to its end, and answer with its outcome; disconnecting cancels it',
    body: {
      schema: runRequestSchema.extend({
        base_url: reachableUrl(runRequestSchema.shape.base_url, egress),
      }),
    },
    answers: {
      200: {
        description: 'The rollout has ended; exit_status is its outcome',
        schema: runResponseSchema,
      },
      429: { description: 'The queue is full; Retry-After says when to retry' },
      503: { description: 'Draining or shutting down; Retry-After says when to retry' },
    },
    async handle(c, body, text) {
      const posted = { body, row: rowIn(text) }
      return jsonTextAnswer(await runs.run(posted, traceHeadersOf(c), c.req.raw.signal))
    },
  }
  const flush: ServerRoute<FlushRequestBody> = {
    method: 'POST',
    path: '/flush',
    summary: 'Cancel the rollouts that one instance of a session server has requested',
    body: { schema: flushRequestSchema },
    answers: {
      200: { description: 'The number of cancelled rollouts', schema: flushResponseSchema },
    },
    handle(_, { session_server_instance_id: instance }) {
      return jsonAnswer({ flushed: runs.flush(instance) } satisfies FlushResponseBody)
    },
  }
  return [run, flush]
}

/** What runs the rollouts of `POST /run`. */
export interface RunRouteParts {
  readonly backend: Pick<ExecutionBackend, 'cancel'>
  readonly admission: Admission
  readonly requests: RolloutRequests
  readonly logger: Logger
}

/** The rollouts whose trainer waits for the answer on the connection of its request. */
export class Runs {
  readonly #options: RunRouteOptions
  readonly #parts: RunRouteParts
  /** Ids of running rollouts, by the instance that requested them. */
  readonly #instances = new Map<string, Set<string>>()
  readonly #groups: RowGroups
  readonly #sessions = new RolloutMemory<Promise<string>>()
  readonly #droppedNames = new Set<string>()
  #hasWarned = false

  constructor(options: RunRouteOptions, parts: RunRouteParts) {
    this.#options = options
    this.#parts = parts
    this.#groups = new RowGroups(options)
  }

  /**
   * Runs a rollout to its end, and resolves with the body of the answer: JSON. A session that repeats its
   * request did not receive the answer, and gets the first one: the session would record a second rollout
   * after the first.
   *
   * @param disconnected - aborted when the caller disconnects: the rollout is cancelled
   * @throws HttpRefusal when it is not accepted
   */
  async run(posted: PostedRow, trace: TraceHeaders, disconnected: AbortSignal): Promise<string> {
    const { body } = posted
    const { base_url: url } = body
    if (!isSession(body)) return this.#run(posted, trace, disconnected)
    const known = this.#sessions.get(url)
    if (known !== undefined) {
      this.#parts.logger.warn({ url }, 'a session repeated its request; it gets the first answer')
      return known
    }
    const answer = this.#run(posted, trace, disconnected)
    this.#sessions.begin(url, answer)
    try {
      await answer
      this.#sessions.end(url)
    } catch {
      this.#sessions.drop(url)
    }
    return answer
  }

  async #run(posted: PostedRow, trace: TraceHeaders, disconnected: AbortSignal): Promise<string> {
    const { backend, admission, requests } = this.#parts
    const startedAt = performance.now()
    const { body, row } = posted
    const { request: requested, dropped } = toRunRequest(posted, trace, this.#options)
    this.#warnOfDropped(dropped)
    const { rolloutId } = requested
    const { promise: answer, resolve } = Promise.withResolvers<string>()
    // The backend may not know the rollout yet: then it is cancelled when it starts.
    const cancelIfDisconnected = (): void => {
      if (disconnected.aborted) backend.cancel({ ids: [rolloutId] })
    }
    const onOutcome = (end: ExecutionOutcome): void => {
      const seconds = (performance.now() - startedAt) / 1000
      const traced = body.trace === true
      if (end.kind === 'rewarded' && !traced) {
        warnOfStepRewards(rolloutId, end.samples.values(), this.#parts.logger)
        this.#warnOfUntrainable(rolloutId, end.samples.values())
      }
      resolve(toRunAnswer(end, { ...this.#options, seconds, traced }))
    }
    const forget = this.#note(body.session_server_instance_id, rolloutId)
    disconnected.addEventListener('abort', cancelIfDisconnected)
    try {
      await admission.admit({
        rolloutId,
        body,
        repeatable: false,
        stored: false,
        secrets: [body.api_key],
        prepare: () => {
          // A refused request is not an attempt.
          const request = { ...requested, group: this.#groups.next(row) }
          const run = async (): Promise<void> =>
            requests.toEnd(request, cancelIfDisconnected, onOutcome)
          return { answer: '', ifInterrupted: () => [], run }
        },
      })
      cancelIfDisconnected()
      return await answer
    } finally {
      disconnected.removeEventListener('abort', cancelIfDisconnected)
      forget()
    }
  }

  /** Cancels the rollouts of an instance; returns how many were cancelled. */
  flush(instance: string): number {
    const ids = [...(this.#instances.get(instance) ?? [])]
    const dispositions = [...this.#parts.backend.cancel({ ids }).values()]
    const flushed = dispositions.filter((disposition) => disposition !== 'not_found').length
    this.#parts.logger.info({ instance, rollouts: flushed }, 'flush requested')
    return flushed
  }

  /** Records that an instance requested a rollout; returns a function that removes the record. */
  #note(instance: string | null | undefined, rolloutId: string): () => void {
    if (instance === null || instance === undefined) return () => undefined
    const ids = this.#instances.get(instance) ?? new Set()
    this.#instances.set(instance, ids.add(rolloutId))
    return () => {
      ids.delete(rolloutId)
      if (ids.size === 0) this.#instances.delete(instance)
    }
  }

  /** Once: a session records every call of its rollout. */
  #warnOfUntrainable(rollout_id: string, samples: Iterable<Pick<RolloutSample, 'calls'>>): void {
    if (this.#hasWarned) return
    for (const { calls } of samples) {
      if (calls.every(({ trainable }) => trainable)) continue
      this.#hasWarned = true
      const why =
        'a workflow makes model calls that are not training data, and the session of this trainer records all calls: they are trained as well. Request a trace, or answer them with another model'
      this.#parts.logger.warn({ rollout_id }, why)
      return
    }
  }

  /** Once for each name: all requests of a trainer have the same. */
  #warnOfDropped(names: readonly string[]): void {
    const dropped = names.filter((name) => !this.#droppedNames.has(name))
    if (dropped.length === 0 || this.#droppedNames.size > maxNames) return
    for (const name of dropped) this.#droppedNames.add(name)
    const message = 'sampling parameters that chat completions do not have are omitted'
    this.#parts.logger.warn({ names: dropped.slice(0, maxNames) }, message)
  }
}

const maxNames = 100

/** Whether the policy of a rollout is a session of a session server, which records that rollout alone. */
function isSession({ session_server_instance_id: instance, trace }: RunRequestBody): boolean {
  return trace !== true && instance !== null && instance !== undefined
}
