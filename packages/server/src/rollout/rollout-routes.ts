import { randomUUID } from 'node:crypto'

import {
  errorMessage,
  type ExecutionBackend,
  type PromptMessage,
  type RolloutRequest,
  type RolloutState,
} from '@osmosis/core'
import {
  currentTraceHeaders,
  inTrace,
  RolloutMemory,
  type EgressPolicy,
  type TraceHeaders,
} from '@osmosis/core/http'
import {
  leasedRolloutAcceptedSchema,
  leasedRolloutRequestSchema,
  rolloutRequestSchema,
  type LeasedRolloutAcceptedBody,
  type LeasedRolloutRequestBody,
  type RolloutRequestBody,
} from '@osmosis/core/wire'
import type { Context } from 'hono'
import { z } from 'zod'

import { reachableUrl } from '../http/reachable-url.ts'
import { isJsonObject, type ServerRoute } from '../http/server-route.ts'
import type { ServerProtocol, ServerServices } from '../http/server-shell.ts'
import type { LeaseOptions } from '../leases/lease-registry.ts'
import { digestOfToken, newLeaseToken } from '../leases/leased-rollout.ts'
import { Leases } from '../leases/leases.ts'
import { resultRoute } from '../leases/result-route.ts'
import { OwnershipLog, type OwnershipOptions } from '../ownership/ownership-log.ts'
import { Admission, type RequestedRollout } from '../work/admission.ts'
import { controlRoutes } from './control-routes.ts'
import { CountedDelivery } from './counted-delivery.ts'
import type { ResultDelivery } from './result-delivery.ts'
import {
  ifInterrupted,
  RolloutCallbacks,
  toState,
  type CallbackTargets,
} from './rollout-callbacks.ts'
import { showRollouts } from './rollout-gauges.ts'
import { TrajectoryFiles, type RolloutTrajectory } from './trajectory-files.ts'

/** What the rollout protocol is served with. */
export interface RolloutProtocolOptions {
  /** Executes the rollouts; the caller made it, and the server shuts it down when it drains. */
  backend: ExecutionBackend
  /**
   * Status of an accepted rollout with callbacks: 202 (default), or 200 for older controllers.
   * Leased rollouts are always accepted with 202.
   */
  admissionStatus?: 200 | 202 | undefined
  /** Name in `/health` and in the answer of a drain; default: the id of the process. */
  instanceId?: string | undefined
  /** Where it is reported which rollouts this server has; default: nowhere. */
  ownership?: OwnershipOptions | undefined
  /** How results are kept for callers that fetch them. */
  leases?: LeaseOptions | undefined
  /**
   * Whether a trajectory document of each rollout is written below the backend's `artifactRoot`,
   * where it has one; default true.
   */
  trajectories?: boolean | undefined
}

/**
 * The routes of the rollout protocol: each translates between the wire and one part behind it.
 *
 * @returns the routes, what takes up the rollouts of an earlier process, and what waits for callers
 * that fetch their results when the server ends
 */
export function rolloutRoutes(
  options: RolloutProtocolOptions,
  services: ServerServices,
): Pick<ServerProtocol, 'routes' | 'resume'> & Required<Pick<ServerProtocol, 'settle'>> {
  const { backend, admissionStatus = 202, instanceId, trajectories = true } = options
  const { logger, metrics } = services
  const files = new TrajectoryFiles(trajectories ? backend.artifactRoot : undefined, services)
  const leases = new Leases(options.leases, { ...services, backend })
  const { registry } = leases
  showRollouts(metrics, backend, leases)
  const ownership = options.ownership && new OwnershipLog(options.ownership, logger)
  /** Rollouts of an earlier process, as their callers are told of them. */
  const earlier = new RolloutMemory<RolloutState>()
  const admission = new Admission(services, {
    isFull: () => !backend.hasCapacity(),
    fullStatus: 429,
    otherBody: 'refuse',
    isTaken: (rolloutId) => registry.get(rolloutId) !== undefined,
  })

  /** Hands a rollout to the backend; resolves when its results have been seen to. */
  async function run(
    request: RolloutRequest,
    results: ResultDelivery,
    trajectory: RolloutTrajectory,
  ): Promise<void> {
    const report = ownership?.begin(request)
    const delivery = new CountedDelivery(results, metrics, request.grade, report)
    try {
      const { traceHeaders = {} } = request
      await inTrace(traceHeaders, async () =>
        backend.execute(request, trajectory.observing(delivery)),
      )
      if (delivery.complete) return
      await delivery.backendEnded(new Error('The backend ended the rollout without a result.'))
    } catch (error) {
      const line = { rollout_id: request.rolloutId, error }
      logger.error(line, `backend failed: ${errorMessage(error)}`)
      trajectory.backendEnded(error)
      await delivery.backendEnded(error)
    } finally {
      await trajectory.write()
    }
  }

  function withCallbacks(body: RolloutRequestBody, traceHeaders: TraceHeaders): RequestedRollout {
    const rolloutId = body.rollout_id ?? randomUUID()
    const targets = toTargets(rolloutId, body)
    const request = toRolloutRequest(body, {
      rolloutId,
      apiKey: body.llm_api_key ?? body.controller_api_key ?? undefined,
      grade: targets.graderUrl !== null,
      traceHeaders,
    })
    return {
      rolloutId,
      body,
      secrets: [body.controller_api_key, body.llm_api_key],
      prepare: () => {
        const trajectory = files.begin(request, body.extra_fields ?? null)
        const onAcknowledged = (text: string): void => trajectory.acknowledged(text)
        return {
          answer: '{}',
          ifInterrupted: () => ifInterrupted(targets),
          run: (record) => {
            const sent = { ...targets, onAcknowledged }
            const callbacks = new RolloutCallbacks(sent, { ...services, record })
            return run(request, callbacks, trajectory)
          },
        }
      },
    }
  }

  function withLease(body: LeasedRolloutRequestBody, traceHeaders: TraceHeaders): RequestedRollout {
    const { rollout_id: rolloutId, llm_api_key: apiKey, grade } = body
    const request = toRolloutRequest(body, {
      rolloutId,
      apiKey: apiKey ?? undefined,
      grade,
      traceHeaders,
    })
    return {
      rolloutId,
      body,
      repeatable: false,
      hasRoom: () => registry.makeRoom(),
      secrets: [apiKey],
      prepare: () => {
        const trajectory = files.begin(request, body.extra_fields ?? null)
        const keep = (): Promise<void> => trajectory.write()
        const token = newLeaseToken()
        const tokenDigest = digestOfToken(token)
        const answer: LeasedRolloutAcceptedBody = {
          rollout_id: rolloutId,
          status: 'queued',
          polling_lease_token: token,
          result_wait_timeout_sec: registry.waitSeconds,
          polling_lease_timeout_sec: registry.leaseSeconds,
        }
        return {
          answer: JSON.stringify(answer),
          ifInterrupted: () => [],
          tokenDigest,
          run: (record) => {
            const identity = { rolloutId, tokenDigest, record }
            const delivery = leases.begin(identity, { graded: grade, keep })
            return run(request, delivery, trajectory)
          },
        }
      },
    }
  }

  const { callbackSchema, leasedSchema } = bodySchemas(services.egress)
  const accept: ServerRoute<RolloutRequestBody | LeasedRolloutRequestBody> = {
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
      const callbacks = hasCallbacks(body)
      const trace = traceHeadersOf(c)
      const requested = callbacks ? withCallbacks(body, trace) : withLease(body, trace)
      const answer = await admission.admit(requested)
      const status = callbacks ? admissionStatus : 202
      return c.body(answer, status, { 'content-type': 'application/json' })
    },
  }

  return {
    routes: [
      accept,
      resultRoute(registry),
      ...controlRoutes({ backend, admission, leases, earlier, instanceId }, services),
    ],
    resume(left) {
      for (const { acceptance, untold } of left.records) {
        const last = untold.at(-1)
        if (last !== undefined) earlier.end(acceptance.rolloutId, toState(last))
      }
      leases.restore(left.records)
      admission.resume(left)
    },
    async settle(longestMs) {
      await leases.close(longestMs)
      await ownership?.close()
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

/** The trace that a request belongs to: the one it names, or what instruments the server made of it. */
function traceHeadersOf(c: Context): TraceHeaders {
  const names = ['traceparent', 'tracestate'] as const
  const given = names.flatMap((name) => {
    const value = c.req.header(name)
    return value === undefined ? [] : [[name, value] as const]
  })
  return { ...Object.fromEntries(given), ...currentTraceHeaders() }
}

function toRolloutRequest(
  body: RolloutRequestBody | LeasedRolloutRequestBody,
  specific: Pick<RolloutRequest, 'rolloutId' | 'apiKey' | 'grade' | 'traceHeaders'>,
): RolloutRequest {
  return {
    initialMessages: body.initial_messages as PromptMessage[],
    label: body.label ?? null,
    metadata: body.metadata ?? null,
    chatCompletionsUrl: body.chat_completions_url,
    agentTimeoutSeconds: body.agent_timeout_sec ?? null,
    graderTimeoutSeconds: body.grader_timeout_sec ?? null,
    ...specific,
  }
}

function toTargets(rolloutId: string, body: RolloutRequestBody): CallbackTargets {
  return {
    rolloutId,
    completionUrl: body.completion_callback_url,
    graderUrl: body.grader_callback_url ?? null,
    apiKey: body.controller_api_key ?? null,
  }
}
