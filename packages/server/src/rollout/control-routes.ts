import { randomUUID } from 'node:crypto'

import type { ExecutionBackend, RolloutSelector, RolloutState } from '@osmosis/core'
import type { RolloutMemory } from '@osmosis/core/http'
import {
  cancelRequestSchema,
  cancelResponseSchema,
  drainRequestSchema,
  drainResponseSchema,
  healthResponseSchema,
  statusResponseSchema,
  type CancelRequestBody,
  type DrainRequestBody,
  type DrainResponseBody,
  type HealthResponseBody,
  type StatusResponseBody,
} from '@osmosis/core/wire'

import type { ServerRoute } from '../http/server-route.ts'
import type { ServerServices } from '../http/server-shell.ts'
import type { Leases } from '../leases/leases.ts'
import type { Admission } from '../work/admission.ts'

/** What the control routes look at and act on. */
export interface ControlledParts {
  readonly backend: ExecutionBackend
  readonly admission: Admission
  readonly leases: Leases
  /** Rollouts of an earlier process. */
  readonly earlier: Pick<RolloutMemory<RolloutState>, 'get'>
  readonly instanceId: string | undefined
}

const processId = randomUUID()

/** The routes that look after rollouts, whatever way their results take. */
export function controlRoutes(parts: ControlledParts, services: ServerServices): ServerRoute[] {
  const { backend, admission, leases, earlier } = parts
  const { delivery, secrets, logger, work } = services
  const identity = { instance_id: parts.instanceId || processId, process_id: processId }

  const status: ServerRoute = {
    method: 'GET',
    path: '/rollout/{rollout_id}/status',
    summary: 'Where a rollout stands',
    answers: { 200: { description: 'Unknown rollouts included', schema: statusResponseSchema } },
    handle(c) {
      const rolloutId = c.req.param('rollout_id') ?? ''
      const state =
        leases.registry.get(rolloutId)?.end ?? earlier.get(rolloutId) ?? backend.status(rolloutId)
      const text = state.errorMessage
      return c.json({
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
    handle(c, body) {
      const selector = toSelector(body)
      const leased = leases.cancel(selector)
      const others =
        'ids' in selector ? { ids: selector.ids.filter((id) => !leased.has(id)) } : selector
      // What leases answer counts: they know their rollouts for longer than the backend does.
      const dispositions = new Map([...backend.cancel(others), ...leased])
      logger.info({ rollouts: dispositions.size }, 'cancel requested')
      return c.json({ dispositions: Object.fromEntries(dispositions) })
    },
  }

  const drain: ServerRoute<DrainRequestBody> = {
    method: 'POST',
    path: '/drain',
    summary: 'Take no more rollouts, and wait for those that are going on; cancels nothing',
    body: { schema: drainRequestSchema },
    answers: { 200: { description: 'What is still going on', schema: drainResponseSchema } },
    async handle(c, { timeout_sec }) {
      if (admission.accepting) logger.info({ running: work.count }, 'drain requested')
      admission.fence()
      await work.idleWithin(timeout_sec * 1000, c.req.raw.signal)
      return c.json({
        accepting_rollouts: admission.accepting,
        active_rollouts: work.count,
        drained: work.count === 0,
        ...identity,
        rollout_ids: admission.admittedIds.toSorted(),
      } satisfies DrainResponseBody)
    },
  }

  const health: ServerRoute = {
    method: 'GET',
    path: '/health',
    summary: 'Whether the server is up, and how busy it is',
    open: true,
    answers: { 200: { description: 'Up', schema: healthResponseSchema } },
    handle(c) {
      const { maxConcurrent, queued, running } = backend.load()
      return c.json({
        status: 'ok',
        concurrency: { max_concurrent: maxConcurrent, queued, running },
        undelivered: delivery.undelivered,
        retained_results: leases.registry.retainedCount,
        ...identity,
        lifecycle: { accepting_rollouts: admission.accepting, active_rollouts: work.count },
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
