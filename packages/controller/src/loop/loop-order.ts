import { OsmosisError } from '@osmosis/core'
import { loopInitRequestSchema, type LoopInitRequestInput } from '@osmosis/runtime/wire'

/** One rollout of a hand-written loop to run: a dataset row and how long it may take. */
export interface LoopOrder {
  /** At most 256 characters, not only white space. Default: a fresh one. */
  readonly rolloutId?: string
  /** The prompt, as chat messages. */
  readonly messages: readonly Readonly<Record<string, unknown>>[]
  /** Parameters of the model calls, by their names on the wire. Default: none. */
  readonly completionParams?: Readonly<Record<string, unknown>>
  /** Most answers of the policy; the loop keeps to it. Default: the server's, which is 10. */
  readonly maxTurns?: number
  /** Most completion tokens of the whole rollout; the loop keeps to it. Default: 8192. */
  readonly maxTokensTotal?: number
  /** Reaches the loop, e.g. `ground_truth`. Default: empty. */
  readonly metadata?: Readonly<Record<string, unknown>>
  /**
   * How long to wait for the result once the server has accepted the order. Milliseconds.
   * Default: null, for ever.
   */
  readonly timeoutMs?: number | null
}

/**
 * Builds the body of `POST /v1/rollout/init`.
 *
 * @throws OsmosisError with code `invalid_request` naming the fields the protocol does not allow
 */
export function toInitRequest(
  rolloutId: string,
  order: LoopOrder,
  trainer: { readonly url: string; readonly apiKey: string },
): LoopInitRequestInput {
  const { messages, completionParams = {}, maxTurns, maxTokensTotal, metadata = {} } = order
  const body = {
    rollout_id: rolloutId,
    server_url: trainer.url,
    messages: [...messages],
    completion_params: completionParams,
    ...(maxTurns === undefined ? {} : { max_turns: maxTurns }),
    ...(maxTokensTotal === undefined ? {} : { max_tokens_total: maxTokensTotal }),
    metadata,
    api_key: trainer.apiKey,
  } satisfies LoopInitRequestInput
  const parsed = loopInitRequestSchema.safeParse(body)
  if (parsed.success) return body
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  throw new OsmosisError('invalid_request', `The rollout cannot be sent: ${faults.join('; ')}`)
}
