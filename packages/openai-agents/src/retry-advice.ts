import type { ModelRetryAdvice } from '@openai/agents'
import { isOsmosisError } from '@osmosis/core'
import { isRetryableStatus } from '@osmosis/core/policy'

/**
 * Advice to the SDK on asking again. It asks for it only in runs with `modelSettings.retry`, the
 * user's own policy of retries on top of those that the policy client has made. Once an answer has
 * begun, asking again would be a second sample of the policy, and no error of usage goes away.
 */
export function retryAdvice(error: unknown): ModelRetryAdvice {
  if (!isOsmosisError(error)) return { suggested: false, replaySafety: 'unsafe' }
  const { code, status, retryAfterMs, message } = error
  const safe = code === 'policy_http_error' || code === 'policy_unreachable'
  if (!safe) {
    const responseStarted = code === 'policy_stream_error'
    return { suggested: false, replaySafety: 'unsafe', responseStarted, reason: message }
  }
  return {
    suggested: code === 'policy_unreachable' || isRetryableStatus(status ?? 0),
    replaySafety: 'safe',
    responseStarted: false,
    reason: message,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  }
}
