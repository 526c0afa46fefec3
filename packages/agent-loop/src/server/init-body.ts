import { z } from '@hono/zod-openapi'
import type { PromptMessage } from '@osmosis/core'

import type { RolloutRequest } from '../rollout-request.ts'
import { pythonJson } from '../tools/python-text.ts'

const longestRolloutId = 256
// Python's idea of white space, which differs from that of JavaScript at both ends.
// oxlint-disable-next-line no-control-regex
const blank = /^[\t-\r\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$/

/** Peers in Python also send integers as `"7"`, `7.0` or `true`. */
const integer = z.union([
  z.int(),
  z
    .string()
    .regex(/^\s*[-+]?\d+(\.0*)?\s*$/, 'must be a whole number')
    .transform(Number),
  z.boolean().transform(Number),
])

/**
 * Body of `POST /v1/rollout/init`. Unknown keys are ignored.
 *
 * @param maxMetadataBytes - as Python JSON text, which escapes everything beyond ASCII
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export const initBodySchema = (maxMetadataBytes: number) =>
  z.object({
    rollout_id: z
      .string()
      .refine((id) => !blank.test(id), 'rollout_id cannot be empty or whitespace only')
      .refine(
        (id) => id.length <= longestRolloutId || Array.from(id).length <= longestRolloutId,
        `rollout_id must have at most ${longestRolloutId} characters`,
      ),
    server_url: z
      .string()
      .refine(
        isTrainerUrl,
        'server_url must be an http or https URL without credentials, query and fragment',
      ),
    messages: z.array(z.looseObject({})),
    completion_params: z.looseObject({}),
    tool_server_url: z.string().nullish(),
    max_turns: integer.default(10),
    max_tokens_total: integer.default(8192),
    metadata: z
      .looseObject({})
      .refine(
        (metadata) => fits(metadata, maxMetadataBytes),
        `metadata must have a JSON text of at most ${maxMetadataBytes} bytes`,
      )
      .default({}),
    api_key: z.string().nullish(),
    idempotency_key: z.string().nullish(),
  })

/** A checked body of `POST /v1/rollout/init`. */
export type InitBody = z.output<ReturnType<typeof initBodySchema>>

/** The rollout that a body asks for, as user code sees it: without the key. */
export function toRolloutRequest(body: InitBody): RolloutRequest {
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

function isTrainerUrl(text: string): boolean {
  if (!/^https?:\/\/[^\s\\?#]+$/i.test(text) || !URL.canParse(text)) return false
  const { username, password, hostname } = new URL(text)
  return username === '' && password === '' && hostname !== ''
}
