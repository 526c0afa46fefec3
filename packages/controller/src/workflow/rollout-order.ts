import { OsmosisError, type RolloutGroup } from '@osmosis/core'
import { rolloutRequestSchema, type RolloutRequestBody } from '@osmosis/runtime/wire'

/** One rollout to run: a dataset row and how long it may take. */
export interface RolloutOrder {
  /** A single path segment of printable ASCII. Default: a fresh one. */
  readonly rolloutId?: string
  /** The prompt, as chat messages. */
  readonly initialMessages: readonly Readonly<Record<string, unknown>>[]
  /** Reference answer; reaches the grader only. Default: null. */
  readonly label?: string | null
  /** Reaches workflow and grader. Default: null. */
  readonly metadata?: Readonly<Record<string, unknown>> | null
  /**
   * Which attempt at which row it is, for workflows and graders of this SDK. A GroupGrader needs the size
   * as well. Default: none, and the key is not sent.
   */
  readonly group?: RolloutGroup | null
  /** Copied by the server into the archived trajectory. Default: null. */
  readonly extraFields?: Readonly<Record<string, unknown>> | null
  /** Budget of the workflow, queue time included. Seconds. Default: null, unbounded. */
  readonly agentTimeoutSeconds?: number | null
  /** Budget of the grader. Seconds. Default: null, unbounded. */
  readonly graderTimeoutSeconds?: number | null
  /** Whether to ask for rewards; without, the completion callback ends the rollout. Default: true. */
  readonly grade?: boolean
  /**
   * How long to wait for the end of the rollout once the server has accepted it. Milliseconds.
   * Default: null, for ever.
   */
  readonly timeoutMs?: number | null
}

/** Where the controller of a rollout listens, and the keys it expects. */
export interface ReturnAddress {
  /** Base URL of the controller. */
  readonly url: string
  readonly callbackToken: string
  readonly policyToken: string
}

/**
 * Builds the body of `POST /rollout`: every key, nulls included.
 *
 * @throws OsmosisError with code `invalid_request` naming the fields the protocol does not allow
 */
export function toRolloutRequest(
  rolloutId: string,
  order: RolloutOrder,
  address: ReturnAddress,
): RolloutRequestBody {
  const base = `${address.url}/v1/rollouts/${encodeURIComponent(rolloutId)}`
  const body = {
    rollout_id: rolloutId,
    initial_messages: order.initialMessages,
    label: order.label ?? null,
    metadata: order.metadata ?? null,
    chat_completions_url: base,
    controller_api_key: address.callbackToken,
    llm_api_key: address.policyToken,
    completion_callback_url: `${base}/completion`,
    grader_callback_url: (order.grade ?? true) ? `${base}/grader` : null,
    agent_timeout_sec: order.agentTimeoutSeconds ?? null,
    grader_timeout_sec: order.graderTimeoutSeconds ?? null,
    extra_fields: order.extraFields ?? null,
    ...(order.group ? { group: order.group } : {}),
  }
  // JSON would turn an infinite timeout into null, which means unbounded, without a word.
  const parsed = rolloutRequestSchema.safeParse(body)
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  throw new OsmosisError('invalid_request', `The rollout cannot be sent: ${faults.join('; ')}`)
}
