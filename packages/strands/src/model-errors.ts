import { ContextWindowOverflowError, ModelThrottledError } from '@strands-agents/sdk'
import { isOsmosisError } from '@osmosis/core'

/** How servers say that a prompt does not fit; there is no status or code they agree on. */
const overflow =
  /context[_ ]length|context[_ ]window|too many tokens|(?:input|prompt) is too long|maximum (?:sequence|model) length/i

/**
 * What the policy refused, as the errors that Strands, its retry strategies and its conversation
 * managers know. Other errors stay as they are: Strands wraps them in a `ModelError`.
 */
export function toModelError(error: unknown): unknown {
  if (!isOsmosisError(error) || error.code !== 'policy_http_error') return error
  const { status, message } = error
  if (status === 429) return new ModelThrottledError(message, { cause: error })
  if ((status === 400 || status === 413 || status === 422) && overflow.test(message)) {
    // Its constructor takes no cause; the category of a failed rollout is found by it.
    return Object.assign(new ContextWindowOverflowError(message), { cause: error })
  }
  return error
}
