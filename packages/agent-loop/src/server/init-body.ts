import type { PromptMessage } from '@osmosis/core'
import type { EgressPolicy } from '@osmosis/core/http'
import { loopInitRequestSchema, type LoopInitRequestBody } from '@osmosis/runtime/wire'

import { reachableUrl } from '@osmosis/server/protocols'

import type { RolloutRequest } from '../rollout-request.ts'
import { pythonJson } from '../tools/python-text.ts'

/** A schema of bodies of `POST /v1/rollout/init`. */
export type InitSchema = typeof loopInitRequestSchema

/**
 * The schema of one server: with a limit on metadata, and a trainer that it may connect to.
 *
 * @param maxMetadataBytes - as Python JSON text, which escapes everything beyond ASCII
 */
export function initBodySchema(maxMetadataBytes: number, egress: EgressPolicy): InitSchema {
  const { metadata, server_url } = loopInitRequestSchema.shape
  const limited = metadata
    .unwrap()
    .refine(
      (value) => fits(value, maxMetadataBytes),
      `metadata must have a JSON text of at most ${maxMetadataBytes} bytes`,
    )
  return loopInitRequestSchema.extend({
    metadata: limited.default({}),
    server_url: reachableUrl(server_url, egress),
  })
}

/** The rollout that a body asks for, as user code sees it: without the key. */
export function toRolloutRequest(body: LoopInitRequestBody): RolloutRequest {
  return {
    rolloutId: body.rollout_id,
    serverUrl: body.server_url,
    messages: body.messages as PromptMessage[],
    completionParams: body.completion_params,
    toolServerUrl: body.tool_server_url ?? null,
    maxTurns: body.max_turns,
    maxTokensTotal: body.max_tokens_total,
    metadata: body.metadata,
    idempotencyKey: body.idempotency_key || null,
  }
}

function fits(metadata: object, maxBytes: number): boolean {
  if (Object.keys(metadata).length === 0) return true
  try {
    return pythonJson(metadata).length <= maxBytes
  } catch {
    // Nested too deeply to be walked.
    return false
  }
}
