/**
 * What went wrong, as a stable word. Codes are API; messages are for people and may change.
 *
 * | code | when |
 * |---|---|
 * | `no_rollout_context` | something that needs a rollout was used outside of one |
 * | `wrong_rollout_context` | a session or agent of one rollout was used inside another |
 * | `placeholder_model` | the placeholder model was called itself |
 * | `missing_session` | a model call cannot be attributed to a sample |
 * | `duplicate_sample` | two sample sources with one name in a rollout, or messages returned beside one |
 * | `invalid_id` | a rollout or sample id that cannot travel in a header or a path |
 * | `unknown_sample` | a reward for a sample that does not exist |
 * | `invalid_reward`, `missing_reward` | a reward is not a finite number; a kept sample has none |
 * | `no_samples` | no sample source is registered, or only agents that never asked the policy |
 * | `not_graded` | there is no grader, or nothing to grade against |
 * | `invalid_config`, `invalid_entrypoint`, `invalid_request`, `invalid_dataset` | bad input, named |
 * | `policy_http_error` | the policy endpoint answered with an error status (`status`) |
 * | `policy_unreachable` | no answer from the policy endpoint |
 * | `policy_stream_error` | the answer broke off, was malformed or carried an error |
 * | `egress_refused` | a server may not connect there, see `EgressOptions` |
 * | `timeout` | a deadline of the rollout passed |
 * | `cancelled` | somebody cancelled the rollout |
 * | `withdrawn` | the trainer took the rollout back: the policy route of its own is gone |
 * | `lease_expired` | nobody asked for the result of the rollout in time |
 * | `user_code_exit` | user code called `process.exit` |
 * | `stray_error` | user code threw from a callback, or left a rejection unhandled |
 * | `rollout_ended` | a model call came after its rollout was over |
 * | `server_shutdown` | the server stopped before the rollout was done |
 * | `unauthorized` | a bearer key is missing or wrong |
 * | `protocol_error` | the other side broke its protocol, or a trainer did not answer |
 * | `platform_unreachable` | no answer from the platform that a server registers with |
 * | `port_in_use` | the address to listen on is taken |
 * | `judge_failed` | a judge gave no score that can be used (`status` when it refused) |
 * | `tool_failed` | a tool call could not be read or carried out |
 * | `storage_error` | results could not be written, for example because the disk is full |
 * | `worker_lost` | the worker process of the rollout ended, or did not answer |
 * | `queue_unavailable` | the Redis of a queue does not answer, or is not accepted as it is |
 * | `run_locked` | another process writes to the evaluation run |
 * | `damaged_run` | files of an evaluation run are missing, or not what was written |
 */
export type OsmosisErrorCode =
  | 'no_rollout_context'
  | 'wrong_rollout_context'
  | 'placeholder_model'
  | 'missing_session'
  | 'duplicate_sample'
  | 'invalid_id'
  | 'unknown_sample'
  | 'invalid_reward'
  | 'missing_reward'
  | 'no_samples'
  | 'not_graded'
  | 'invalid_config'
  | 'invalid_entrypoint'
  | 'invalid_request'
  | 'invalid_dataset'
  | 'policy_http_error'
  | 'policy_unreachable'
  | 'policy_stream_error'
  | 'egress_refused'
  | 'timeout'
  | 'cancelled'
  | 'withdrawn'
  | 'lease_expired'
  | 'user_code_exit'
  | 'stray_error'
  | 'rollout_ended'
  | 'server_shutdown'
  | 'unauthorized'
  | 'protocol_error'
  | 'platform_unreachable'
  | 'port_in_use'
  | 'judge_failed'
  | 'tool_failed'
  | 'storage_error'
  | 'worker_lost'
  | 'queue_unavailable'
  | 'run_locked'
  | 'damaged_run'

const brand = Symbol.for('osmosis.error')

/** Every error this SDK throws on purpose; programming mistakes stay `TypeError` and `RangeError`. */
export class OsmosisError extends Error {
  override readonly name: string = 'OsmosisError'
  readonly [brand] = true
  readonly code: OsmosisErrorCode
  /** HTTP status of the answer, where the other side gave one. */
  readonly status: number | undefined
  /** How long the other side asked us to wait before the next try. Milliseconds. */
  readonly retryAfterMs: number | undefined
  /** Whether the other side said that trying again helps; undefined when it did not say. */
  readonly shouldRetry: boolean | undefined

  constructor(
    code: OsmosisErrorCode,
    message: string,
    options: {
      cause?: unknown
      status?: number
      retryAfterMs?: number | undefined
      shouldRetry?: boolean | undefined
    } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.status = options.status
    this.retryAfterMs = options.retryAfterMs
    this.shouldRetry = options.shouldRetry
  }
}

/** True for an {@link OsmosisError} of this or any other installed copy of the package. */
export function isOsmosisError(value: unknown): value is OsmosisError {
  try {
    return typeof value === 'object' && value !== null && brand in value
  } catch {
    // Of a proxy that answers no questions.
    return false
  }
}
