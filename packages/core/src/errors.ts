/** Coarse cause of a failed rollout; `err_category` on the wire. */
export type ErrorCategory = 'timeout' | 'validation_error' | 'http_error' | 'agent_error'

/**
 * What went wrong, as a stable word. Codes are API; messages may change.
 *
 * | code | when |
 * |---|---|
 * | `no_rollout_context` | something that needs a rollout was used outside of one |
 * | `wrong_rollout_context` | a session or agent of one rollout was used inside another |
 * | `placeholder_model` | the placeholder model itself was called |
 * | `missing_session` | a model call cannot be attributed to a sample |
 * | `duplicate_sample` | two sample sources have one name, or the workflow returned messages although it registered one |
 * | `invalid_id` | a rollout or sample id cannot be sent in a header or a path |
 * | `unknown_sample` | a reward names a sample that does not exist |
 * | `invalid_reward`, `missing_reward` | a reward is not a finite number; a sample in training has none |
 * | `no_samples` | no sample source is registered, or only agents that never called the policy |
 * | `no_output` | a grader reads what `run()` returned, and that is no JSON data |
 * | `not_graded` | the entrypoint has no grader, or the sample cannot be graded |
 * | `invalid_config`, `invalid_entrypoint`, `invalid_request`, `invalid_dataset` | an input is invalid; the message names it |
 * | `policy_http_error` | the policy endpoint answered with an error status (`status`) |
 * | `policy_unreachable` | the policy endpoint did not answer |
 * | `policy_stream_error` | the answer broke off, was malformed or reported an error |
 * | `egress_refused` | the server may not connect to that address, see `EgressOptions` |
 * | `timeout` | a deadline of the rollout passed |
 * | `limit_reached` | a limit of `rolloutLimits` ended the rollout |
 * | `cancelled` | the rollout was cancelled |
 * | `withdrawn` | the trainer withdrew the rollout: its own policy route answered 404 or 410 |
 * | `lease_expired` | the result of the rollout was not fetched in time |
 * | `user_code_exit` | user code called `process.exit` |
 * | `stray_error` | user code threw in a callback, or left a rejection unhandled |
 * | `rollout_ended` | a model call came after its rollout had ended |
 * | `server_shutdown` | the server stopped before the rollout ended |
 * | `unauthorized` | a bearer key is missing or wrong |
 * | `protocol_error` | the other side violated its protocol, or a trainer did not answer |
 * | `platform_unreachable` | the platform that a server registers with did not answer |
 * | `port_in_use` | the address to listen on is in use |
 * | `judge_failed` | a judge gave no usable score (`status` when its endpoint refused) |
 * | `tool_failed` | a tool call could not be parsed or executed |
 * | `storage_error` | results could not be written, for example because the disk is full |
 * | `worker_lost` | the worker process of the rollout ended or stopped answering |
 * | `queue_unavailable` | the Redis of a queue does not answer, or its settings are not accepted |
 * | `learner_error` | the program that trains a policy failed, or refused a request |
 * | `training_drift` | an update was refused: the learner's logprobs are not those that were recorded |
 * | `run_locked` | another process writes to the evaluation run |
 * | `damaged_run` | files of an evaluation run are missing or were changed |
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
  | 'no_output'
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
  | 'limit_reached'
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
  | 'learner_error'
  | 'training_drift'
  | 'run_locked'
  | 'damaged_run'

const brand = Symbol.for('osmosis.error')

/** Every error that this SDK throws on purpose. Misuse throws `TypeError` and `RangeError`. */
export class OsmosisError extends Error {
  override readonly name: string = 'OsmosisError'
  readonly [brand] = true
  readonly code: OsmosisErrorCode
  /** HTTP status of the answer, if there was one. */
  readonly status: number | undefined
  /** How long the answer asks to wait before the next attempt. Milliseconds. */
  readonly retryAfterMs: number | undefined
  /** What `x-should-retry` of the answer says; undefined without that header. */
  readonly shouldRetry: boolean | undefined
  /** The `code` in the body of the answer, such as `context_length_exceeded`. */
  readonly endpointCode: string | undefined
  /** The `type` in the body of the answer, such as `invalid_request_error`. */
  readonly endpointType: string | undefined

  constructor(
    code: OsmosisErrorCode,
    message: string,
    options: {
      cause?: unknown
      status?: number
      retryAfterMs?: number | undefined
      shouldRetry?: boolean | undefined
      endpointCode?: string | undefined
      endpointType?: string | undefined
    } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.status = options.status
    this.retryAfterMs = options.retryAfterMs
    this.shouldRetry = options.shouldRetry
    this.endpointCode = options.endpointCode
    this.endpointType = options.endpointType
  }
}

/** True for an {@link OsmosisError} of this or any other installed copy of the package. */
export function isOsmosisError(value: unknown): value is OsmosisError {
  try {
    return typeof value === 'object' && value !== null && brand in value
  } catch {
    // A proxy of user code may throw.
    return false
  }
}

const categoryOfCode: Record<OsmosisErrorCode, ErrorCategory> = {
  limit_reached: 'agent_error',
  no_rollout_context: 'validation_error',
  wrong_rollout_context: 'validation_error',
  placeholder_model: 'validation_error',
  missing_session: 'validation_error',
  duplicate_sample: 'validation_error',
  invalid_id: 'validation_error',
  unknown_sample: 'validation_error',
  invalid_reward: 'validation_error',
  missing_reward: 'validation_error',
  no_samples: 'validation_error',
  no_output: 'agent_error',
  not_graded: 'validation_error',
  invalid_config: 'validation_error',
  invalid_entrypoint: 'validation_error',
  invalid_request: 'validation_error',
  invalid_dataset: 'validation_error',
  policy_http_error: 'http_error',
  policy_unreachable: 'http_error',
  policy_stream_error: 'http_error',
  egress_refused: 'http_error',
  timeout: 'timeout',
  cancelled: 'agent_error',
  withdrawn: 'agent_error',
  lease_expired: 'agent_error',
  user_code_exit: 'agent_error',
  stray_error: 'agent_error',
  rollout_ended: 'agent_error',
  server_shutdown: 'agent_error',
  unauthorized: 'http_error',
  protocol_error: 'http_error',
  platform_unreachable: 'http_error',
  port_in_use: 'agent_error',
  judge_failed: 'http_error',
  tool_failed: 'agent_error',
  storage_error: 'agent_error',
  worker_lost: 'agent_error',
  queue_unavailable: 'http_error',
  learner_error: 'agent_error',
  training_drift: 'agent_error',
  run_locked: 'agent_error',
  damaged_run: 'agent_error',
}

const validationErrorNames = new Set([
  'TypeError',
  'RangeError',
  'SyntaxError',
  'AssertionError',
  'ZodError',
  '$ZodError',
  'ValidationError',
])

// Codes of node:net, node:dns and undici for a failed connection.
const networkCode = /^(ECONN|EPIPE$|ENOTFOUND$|EAI_|EHOSTUNREACH$|ENETUNREACH$|ETIMEDOUT$|UND_ERR_)/

/** Another installed copy of the package may have other codes. */
function categoryOf({ code }: OsmosisError): ErrorCategory {
  return Object.hasOwn(categoryOfCode, code) ? categoryOfCode[code] : 'agent_error'
}

/**
 * The category of an error from user code. Frameworks wrap the errors of model calls, so the causes
 * of an error count as well.
 */
export function errorCategory(error: unknown): ErrorCategory {
  try {
    const chain = causes(error)
    for (const link of chain) {
      if (isOsmosisError(link)) return categoryOf(link)
      if (link.name === 'TimeoutError') return 'timeout'
      if (isHttpError(link)) return 'http_error'
    }
    // The outermost error only: a TypeError among its causes is not why the workflow failed.
    const name = chain[0]?.name ?? ''
    return validationErrorNames.has(name) ? 'validation_error' : 'agent_error'
  } catch {
    // Getters and proxies of user code may throw.
    return 'agent_error'
  }
}

/** `error.message`, or the class name when that is empty; other thrown values as text. */
export function errorMessage(error: unknown): string {
  try {
    if (!(error instanceof Error)) return String(error)
    const { message } = error as { message: unknown }
    return typeof message === 'string' && message !== '' ? message : error.constructor.name
  } catch {
    // `String(Object.create(null))` throws.
    return 'something without a message was thrown'
  }
}

function isHttpError(error: Error): boolean {
  const { status, statusCode, code } = error as {
    status?: unknown
    statusCode?: unknown
    code?: unknown
  }
  if ([status, statusCode].some((value) => typeof value === 'number' && value >= 400)) return true
  return typeof code === 'string' && networkCode.test(code)
}

/** The error and its chain of causes, as far as they can be read: getters and proxies of user code may throw. */
export function causes(error: unknown): Error[] {
  const chain: Error[] = []
  try {
    // No framework nests eight errors; the limit also ends a cycle.
    for (let link = error; link instanceof Error && chain.length < 8; link = link.cause) {
      chain.push(link)
    }
  } catch {
    // What was read so far is known.
  }
  return chain
}
