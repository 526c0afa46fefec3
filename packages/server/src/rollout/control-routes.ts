import { randomUUID } from 'node:crypto'

import type { RolloutSelector } from '@osmosis/runtime'
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
} from '@osmosis/runtime/wire'

import { jsonAnswer } from '../http/route-answer.ts'
import type { ServerRoute } from '../http/server-route.ts'
import type { ServerServices } from '../http/server-shell.ts'
import type { RolloutControl } from './rollout-ports.ts'

const processId = randomUUID()

/**
 * The routes that look after rollouts, whatever way their results take.
 *
 * @param instanceId - default: the id of the process
 */
export function controlRoutes(
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
    summary: 'Take no more rollouts, and wait for those that are going on; cancels nothing',
    body: { schema: drainRequestSchema },
    answers: { 200: { description: 'What is still going on', schema: drainResponseSchema } },
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
