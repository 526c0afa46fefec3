import type { EgressPolicy } from '@osmosis/core/http'
import {
  flushRequestSchema,
  flushResponseSchema,
  runRequestSchema,
  runResponseSchema,
  type FlushRequestBody,
  type FlushResponseBody,
  type RunRequestBody,
} from '@osmosis/runtime/wire'

import { reachableUrl } from '../http/reachable-url.ts'
import { jsonAnswer, jsonTextAnswer } from '../http/route-answer.ts'
import { traceHeadersOf, type ServerRoute } from '../http/server-route.ts'
import type { Runs } from './runs.ts'

/** `POST /run` and `POST /flush`. */
export function runRoutes(runs: Runs, egress: EgressPolicy): ServerRoute[] {
  const run: ServerRoute<RunRequestBody> = {
    method: 'POST',
    path: '/run',
    summary: 'Run a rollout to its end, and answer with what came of it; hanging up cancels it',
    body: {
      schema: runRequestSchema.extend({
        base_url: reachableUrl(runRequestSchema.shape.base_url, egress),
      }),
    },
    answers: {
      200: {
        description: 'The rollout has ended, well or not: exit_status says how',
        schema: runResponseSchema,
      },
      429: { description: 'The queue is full; Retry-After says when to ask again' },
      503: { description: 'Draining or shutting down; Retry-After says when to ask again' },
    },
    async handle(c, body) {
      return jsonTextAnswer(await runs.run(body, traceHeadersOf(c), c.req.raw.signal))
    },
  }
  const flush: ServerRoute<FlushRequestBody> = {
    method: 'POST',
    path: '/flush',
    summary: 'Cancel the rollouts that one instance of a session server has asked for',
    body: { schema: flushRequestSchema },
    answers: { 200: { description: 'How many that were', schema: flushResponseSchema } },
    handle(_, { session_server_instance_id: instance }) {
      return jsonAnswer({ flushed: runs.flush(instance) } satisfies FlushResponseBody)
    },
  }
  return [run, flush]
}
