import { randomUUID } from 'node:crypto'

import { isPathSegment } from '@osmosis/core'
import type { EgressPolicy, TraceHeaders } from '@osmosis/core/http'
import type { BackendLoad, RolloutSelector, RolloutState } from '@osmosis/runtime'
import {
  cancelRequestSchema,
  cancelResponseSchema,
  drainRequestSchema,
  drainResponseSchema,
  healthResponseSchema,
  leasedErrorCategorySchema,
  leasedResultSchema,
  leasedRolloutAcceptedSchema,
  leasedRolloutRequestSchema,
  leaseHeader,
  rolloutRequestSchema,
  statusResponseSchema,
  type CancelDisposition,
  type CancelRequestBody,
  type DrainRequestBody,
  type DrainResponseBody,
  type HealthResponseBody,
  type LeasedRolloutRequestBody,
  type RolloutRequestBody,
  type StatusResponseBody,
} from '@osmosis/runtime/wire'
import { z } from 'zod'

import { HttpRefusal } from '../http/http-refusal.ts'
import { reachableUrl } from '../http/reachable-url.ts'
import { jsonAnswer, jsonTextAnswer } from '../http/route-answer.ts'
import { isJsonObject, traceHeadersOf, type ServerRoute } from '../http/server-route.ts'
import type { ServerServices } from '../http/server-shell.ts'

// What the routes of the rollout protocol know of rollouts. Behind it they are in this process, or
// somewhere that several servers share, which is why everything here may have to be waited for.

/** A body of `POST /rollout`, by the way that its results take. */
export type RolloutBody =
  | { readonly kind: 'callbacks'; readonly body: RolloutRequestBody }
  | { readonly kind: 'lease'; readonly body: LeasedRolloutRequestBody }

/** Takes rollouts in. */
export interface RolloutAdmission {
  /**
   * Accepts a rollout, once, and resolves with the body of the answer: JSON.
   *
   * @throws HttpRefusal when it is not accepted
   */
  accept(asked: RolloutBody, trace: TraceHeaders): Promise<string>
}

/** A rollout whose result is fetched. */
export interface LeaseReader {
  /** Whether this is the token of its lease. Takes equally long for every wrong one. */
  carries(token: string): boolean
  /**
   * Renews the lease, then waits until the status differs from the one that was answered last, the
   * time is up, or `signal` aborts. Resolves with the body of the answer: JSON.
   */
  read(longestMs: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer> | string>
}

/** Where results are fetched. */
export interface LeaseResults {
  /** Longest time a request for a result waits for news. Seconds. */
  readonly waitSeconds: number
  find(rolloutId: string): LeaseReader | undefined | Promise<LeaseReader | undefined>
}

/** What `/health` says of rollouts. */
export interface RolloutCounts {
  readonly load: BackendLoad
  /** Callbacks that are still to be told. */
  readonly undelivered: number
  /** Results that are kept for their callers. */
  readonly retainedResults: number
}

/** Looks after rollouts, whatever way their results take. */
export interface RolloutControl {
  status(rolloutId: string): RolloutState | Promise<RolloutState>
  /** The result has every id of an `ids` selector, and for others those that were cancelled. */
  cancel(
    selector: RolloutSelector,
  ): Map<string, CancelDisposition> | Promise<Map<string, CancelDisposition>>
  counts(): RolloutCounts | Promise<RolloutCounts>
  /** Whether this server accepts rollouts. */
  readonly accepting: boolean
  /** This server accepts nothing from now on. */
  fence(): void
  /** Ids of the rollouts that this server accepted. */
  readonly admittedIds: readonly string[]
}

/** All that the routes of the rollout protocol stand on. */
export interface RolloutPorts {
  readonly admission: RolloutAdmission
  readonly results: LeaseResults
  readonly control: RolloutControl
}

/** How the routes of the rollout protocol answer. */
export interface PortRouteOptions {
  /**
   * Status of an accepted rollout with callbacks: 202 (default), or 200 for older controllers.
   * Leased rollouts are always accepted with 202.
   */
  admissionStatus?: 200 | 202 | undefined
  /** Name in `/health` and in the answer of a drain; default: the id of the process. */
  instanceId?: string | undefined
}

/** The routes of the rollout protocol: each translates between the wire and one port behind it. */
export function portRoutes(
  { admission, results, control }: RolloutPorts,
  { admissionStatus = 202, instanceId }: PortRouteOptions,
  services: ServerServices,
): ServerRoute[] {
  services.metrics.callbacks.expect('completion', 'grader')
  return [
    acceptRoute({ admission, admissionStatus, egress: services.egress }),
    resultRoute(results),
    ...controlRoutes(control, instanceId, services),
  ]
}

/** What the route hands bodies to, and how it answers. */
interface AcceptParts {
  readonly admission: RolloutAdmission
  /** Of rollouts with callbacks. */
  readonly admissionStatus: 200 | 202
  readonly egress: EgressPolicy
}

/** `POST /rollout`. */
function acceptRoute({
  admission,
  admissionStatus,
  egress,
}: AcceptParts): ServerRoute<RolloutRequestBody | LeasedRolloutRequestBody> {
  const { callbackSchema, leasedSchema } = bodySchemas(egress)
  return {
    method: 'POST',
    path: '/rollout',
    summary: 'Accept one rollout; without completion_callback_url its result is to be fetched',
    body: {
      schema: z.union([callbackSchema, leasedSchema]),
      schemaFor: (body) => (hasCallbacks(body) ? callbackSchema : leasedSchema),
      lists: { initial_messages: isJsonObject },
    },
    answers: {
      [admissionStatus]: { description: 'Accepted, now or before', schema: z.object({}) },
      202: {
        description: 'Accepted, now or before; with the lease, where the result is to be fetched',
        schema: z.union([leasedRolloutAcceptedSchema, z.object({})]),
      },
      409: { description: 'The rollout_id is in use with another body, or leased' },
      429: { description: 'The queue is full; Retry-After says when to ask again' },
      503: { description: 'Draining or shutting down; Retry-After says when to ask again' },
    },
    async handle(c, body) {
      const asked: RolloutBody = hasCallbacks(body)
        ? { kind: 'callbacks', body }
        : { kind: 'lease', body }
      const answer = await admission.accept(asked, traceHeadersOf(c))
      const status = asked.kind === 'callbacks' ? admissionStatus : 202
      return jsonTextAnswer(answer, status)
    },
  }
}

/** The schemas of the protocol, for this server: with URLs that it may connect to. */
function bodySchemas(egress: EgressPolicy): {
  callbackSchema: typeof rolloutRequestSchema
  leasedSchema: typeof leasedRolloutRequestSchema
} {
  const { shape } = rolloutRequestSchema
  const chat_completions_url = reachableUrl(shape.chat_completions_url, egress)
  return {
    callbackSchema: rolloutRequestSchema.extend({
      chat_completions_url,
      completion_callback_url: reachableUrl(shape.completion_callback_url, egress),
      grader_callback_url: reachableUrl(shape.grader_callback_url, egress),
    }),
    leasedSchema: leasedRolloutRequestSchema.extend({ chat_completions_url }),
  }
}

/** Whether a body names the receiver of its results; otherwise they are leased. */
function hasCallbacks(body: unknown): body is RolloutRequestBody {
  return isJsonObject(body) && Object.hasOwn(body as object, 'completion_callback_url')
}

/** As it is written; what is read is more lenient. */
const answerSchema = leasedResultSchema.extend({
  err_category: leasedErrorCategorySchema.nullable(),
})

/** The route at which the holder of a lease asks for the result, and so renews the lease. */
function resultRoute(results: LeaseResults): ServerRoute {
  return {
    method: 'GET',
    path: '/rollout/{rollout_id}/result',
    summary: 'The result of a leased rollout, or its status when that has changed or time is up',
    answers: {
      200: { description: 'The status, and the result once there is one', schema: answerSchema },
      403: { description: `The ${leaseHeader} header is not the lease of this rollout` },
      404: { description: 'No such leased rollout, or its result is no longer kept' },
      422: { description: `The id is no path segment, or the ${leaseHeader} header is missing` },
    },
    async handle(c) {
      const rolloutId = c.req.param('rollout_id') ?? ''
      if (!isPathSegment(rolloutId)) {
        const msg = 'must be a single path segment of printable ASCII, at most 256 characters'
        throw new HttpRefusal(422, [{ type: 'value_error', loc: ['path', 'rollout_id'], msg }])
      }
      const token = c.req.header(leaseHeader)
      if (token === undefined) {
        const missing = { type: 'missing', loc: ['header', leaseHeader], msg: 'Field required' }
        throw new HttpRefusal(422, [missing])
      }
      const rollout = await results.find(rolloutId)
      if (rollout === undefined) throw new HttpRefusal(404, 'unknown rollout_id')
      if (!rollout.carries(token)) throw new HttpRefusal(403, 'invalid polling lease')
      const body = await rollout.read(results.waitSeconds * 1000, c.req.raw.signal)
      return jsonTextAnswer(body)
    },
  }
}

const processId = randomUUID()

/**
 * The routes that look after rollouts, whatever way their results take.
 *
 * @param instanceId - default: the id of the process
 */
function controlRoutes(
  control: RolloutControl,
  instanceId: string | undefined,
  { secrets, logger, work }: Pick<ServerServices, 'secrets' | 'logger' | 'work'>,
): ServerRoute[] {
  const identity = { instance_id: instanceId || processId, process_id: processId }

  const status: ServerRoute = {
    method: 'GET',
    path: '/rollout/{rollout_id}/status',
    summary: 'Where a rollout stands',
    answers: { 200: { description: 'Unknown rollouts included', schema: statusResponseSchema } },
    async handle(c) {
      const rolloutId = c.req.param('rollout_id') ?? ''
      const state = await control.status(rolloutId)
      const text = state.errorMessage
      return jsonAnswer({
        rollout_id: rolloutId,
        status: state.status,
        reward: state.reward,
        err_message: text === null ? null : secrets.redactError(text),
      } satisfies StatusResponseBody)
    },
  }

  const cancel: ServerRoute<CancelRequestBody> = {
    method: 'POST',
    path: '/rollout/cancel',
    summary: 'Cancel rollouts by ids, by prefix, or all of them',
    body: { schema: cancelRequestSchema, lists: { ids: (id) => typeof id === 'string' } },
    answers: { 200: { description: 'What became of each', schema: cancelResponseSchema } },
    async handle(_, body) {
      const dispositions = await control.cancel(toSelector(body))
      logger.info({ rollouts: dispositions.size }, 'cancel requested')
      return jsonAnswer({ dispositions: Object.fromEntries(dispositions) })
    },
  }

  const drain: ServerRoute<DrainRequestBody> = {
    method: 'POST',
    path: '/drain',
    summary: 'Take no more rollouts, and wait for those that are in progress; cancels nothing',
    body: { schema: drainRequestSchema },
    answers: { 200: { description: 'What is still in progress', schema: drainResponseSchema } },
    async handle(c, { timeout_sec }) {
      if (control.accepting) logger.info({ running: work.count }, 'drain requested')
      control.fence()
      await work.idleWithin(timeout_sec * 1000, c.req.raw.signal)
      return jsonAnswer({
        accepting_rollouts: control.accepting,
        active_rollouts: work.count,
        drained: work.count === 0,
        ...identity,
        rollout_ids: control.admittedIds.toSorted(),
      } satisfies DrainResponseBody)
    },
  }

  const health: ServerRoute = {
    method: 'GET',
    path: '/health',
    summary: 'Whether the server is up, and how busy it is',
    open: true,
    answers: { 200: { description: 'Up', schema: healthResponseSchema } },
    async handle() {
      const { load, undelivered, retainedResults } = await control.counts()
      const { maxConcurrent, queued, running } = load
      return jsonAnswer({
        status: 'ok',
        concurrency: { max_concurrent: maxConcurrent, queued, running },
        undelivered,
        retained_results: retainedResults,
        ...identity,
        lifecycle: { accepting_rollouts: control.accepting, active_rollouts: work.count },
      } satisfies HealthResponseBody)
    },
  }

  return [status, cancel, drain, health]
}

/** The selector in a cancel request, which its schema has found to hold exactly one. */
function toSelector({ ids, prefix }: CancelRequestBody): RolloutSelector {
  if (ids) return { ids }
  return prefix ? { prefix } : { all: true }
}
