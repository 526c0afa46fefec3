import { isOsmosisError, type OsmosisError, type OsmosisErrorCode } from './errors.ts'

/** Coarse cause of a failed rollout, as it crosses the wire in `err_category`. */
export type ErrorCategory = 'timeout' | 'validation_error' | 'http_error' | 'agent_error'

const categoryOfCode: Record<OsmosisErrorCode, ErrorCategory> = {
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

// Codes of node:net, node:dns and undici for "the other machine could not be talked to".
const networkCode = /^(ECONN|EPIPE$|ENOTFOUND$|EAI_|EHOSTUNREACH$|ENETUNREACH$|ETIMEDOUT$|UND_ERR_)/

/** Another installed copy of the package may have codes of its own. */
function categoryOf({ code }: OsmosisError): ErrorCategory {
  return Object.hasOwn(categoryOfCode, code) ? categoryOfCode[code] : 'agent_error'
}

/**
 * Sorts an error of user code into the four categories of the protocol. Frameworks wrap what a
 * model call threw, so an error of another kind is judged by its `cause`.
 */
export function errorCategory(error: unknown): ErrorCategory {
  try {
    const chain = causes(error)
    for (const link of chain) {
      if (isOsmosisError(link)) return categoryOf(link)
      if (link.name === 'TimeoutError') return 'timeout'
      if (isHttpError(link)) return 'http_error'
    }
    // Only the error itself: a TypeError somewhere below is not what the workflow failed of.
    const name = chain[0]?.name ?? ''
    return validationErrorNames.has(name) ? 'validation_error' : 'agent_error'
  } catch {
    // Getters and proxies are code of users, too, and may throw themselves.
    return 'agent_error'
  }
}

/** `error.message`, or the class name when that is empty; thrown non-errors as text. */
export function errorMessage(error: unknown): string {
  try {
    if (!(error instanceof Error)) return String(error)
    const { message } = error as { message: unknown }
    return typeof message === 'string' && message !== '' ? message : error.constructor.name
  } catch {
    // Not every value has a text: `Object.create(null)` throws when it is asked for one.
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

/** The error and what it says caused it. Throws what getters of user code throw. */
export function causes(error: unknown): Error[] {
  const chain: Error[] = []
  // Eight links are deeper than any framework nests, and end a cycle.
  for (let link = error; link instanceof Error && chain.length < 8; link = link.cause) {
    chain.push(link)
  }
  return chain
}
