import { randomUUID } from 'node:crypto'

import { isPathSegment } from '@osmosis/core'
import { type EgressPolicy, isJsonObject } from '@osmosis/core/http'
import type { RolloutSelector } from '@osmosis/protocol'
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
  type CancelRequestBody,
  type DrainRequestBody,
  type DrainResponseBody,
  type HealthResponseBody,
  type LeasedRolloutRequestBody,
  type RolloutRequestBody,
  type StatusResponseBody,
} from '@osmosis/protocol/wire'
import { z } from 'zod'

import { reachableUrl, withExactData } from '../../http/request-body.ts'
import {
  HttpRefusal,
  jsonAnswer,
  jsonTextAnswer,
  traceHeadersOf,
  type ServerRoute,
} from '../../http/server-route.ts'
import type { ServerServices } from '../../http/server-shell.ts'
import type {
  LeaseResults,
  RolloutAdmission,
  RolloutBody,
  RolloutControl,
  RolloutPorts,
} from './rollout-ports.ts'

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

/** The routes of the rollout protocol: each translates between the wire and one port. */
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

/** What {@link acceptRoute} works with. */
interface AcceptParts {
  readonly admission: RolloutAdmission
  /** Status of an accepted rollout with callbacks. */
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
      429: { description: 'The queue is full; Retry-After says when to retry' },
      503: { description: 'Draining or shutting down; Retry-After says when to retry' },
    },
    async handle(c, given, text) {
      const body = withExactData(given, text, ['initial_messages', 'metadata', 'extra_fields'])
      const requested: RolloutBody = hasCallbacks(body)
        ? { kind: 'callbacks', body }
        : { kind: 'lease', body }
      const answer = await admission.accept(requested, traceHeadersOf(c))
      const status = requested.kind === 'callbacks' ? admissionStatus : 202
      return jsonTextAnswer(answer, status)
    },
  }
}

/** The schemas of the protocol, with URLs that this server may connect to. */
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

/** Whether a body names the receiver of its results; otherwise the rollout is leased. */
function hasCallbacks(body: unknown): body is RolloutRequestBody {
  return isJsonObject(body) && Object.hasOwn(body, 'completion_callback_url')
}

/** The schema for writing; reading is more lenient. */
const answerSchema = leasedResultSchema.extend({
  err_category: leasedErrorCategorySchema.nullable(),
})

/** The route that callers poll for the result of a leased rollout, which renews the lease. */
function resultRoute(results: LeaseResults): ServerRoute {
  return {
    method: 'GET',
    path: '/rollout/{rollout_id}/result',
    summary: 'The result of a leased rollout, or its status when that has changed or time is up',
    answers: {
      200: { description: 'The status, and the result once there is one', schema: answerSchema },
      403: { description: `The ${leaseHeader} header is not the lease of this rollout` },
      404: { description: 'No such leased rollout, or its result is no longer stored' },
      405: { description: 'A HEAD request, which would not get the result' },
      422: { description: `The id is not a path segment, or the ${leaseHeader} header is missing` },
    },
    async handle(c) {
      // It would wait for a result, and mark it as fetched, although nobody gets it.
      if (c.req.method === 'HEAD') {
        throw new HttpRefusal(405, 'Method Not Allowed', { allow: 'GET' })
      }
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
 * The routes that show and cancel rollouts, however their results are delivered.
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
    summary: 'The state of a rollout',
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
    answers: { 200: { description: 'The result for each', schema: cancelResponseSchema } },
    async handle(_, body) {
      const dispositions = await control.cancel(toSelector(body))
      logger.info({ rollouts: dispositions.size }, 'cancel requested')
      return jsonAnswer({ dispositions: Object.fromEntries(dispositions) })
    },
  }

  const drain: ServerRoute<DrainRequestBody> = {
    method: 'POST',
    path: '/drain',
    summary: 'Refuse new rollouts, and wait for those that are in progress; cancels nothing',
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

/** The selector of a cancel request; its schema ensures that there is exactly one. */
function toSelector({ ids, prefix }: CancelRequestBody): RolloutSelector {
  if (ids) return { ids }
  return prefix ? { prefix } : { all: true }
}
