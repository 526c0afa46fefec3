import type { EgressPolicy } from '@osmosis/core/http'
import {
  leasedRolloutAcceptedSchema,
  leasedRolloutRequestSchema,
  rolloutRequestSchema,
  type LeasedRolloutRequestBody,
  type RolloutRequestBody,
} from '@osmosis/runtime/wire'
import { z } from 'zod'

import { reachableUrl } from '../http/reachable-url.ts'
import { jsonTextAnswer } from '../http/route-answer.ts'
import { isJsonObject, traceHeadersOf, type ServerRoute } from '../http/server-route.ts'
import type { AskedRollout, RolloutIntake } from './rollout-ports.ts'

/** What the route hands bodies to, and how it answers. */
interface AcceptParts {
  readonly intake: RolloutIntake
  /** Of rollouts with callbacks. */
  readonly admissionStatus: 200 | 202
  readonly egress: EgressPolicy
}

/** `POST /rollout`. */
export function acceptRoute({
  intake,
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
      const asked: AskedRollout = hasCallbacks(body)
        ? { kind: 'callbacks', body }
        : { kind: 'lease', body }
      const answer = await intake.accept(asked, traceHeadersOf(c))
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
