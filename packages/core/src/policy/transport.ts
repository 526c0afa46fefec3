import { isPassingStatus } from '../http/retry.ts'
import { transportsByEgress } from '../http/transport.ts'

const keyHint = '. Check the API key that the rollout was sent with (llm_api_key).'

/** The connections of all policy calls of this process that may lead to the same places. */
export const policyTransport = transportsByEgress({
  name: 'policy endpoint',
  codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
  hints: {
    401: keyHint,
    403: keyHint,
    404: '. chat_completions_url is a base URL: "/chat/completions" is appended to it.',
  },
  isPassingStatus: isRetryableStatus,
})

/** Whether a model call that was answered with this status is worth making again. */
export function isRetryableStatus(status: number): boolean {
  // In the OpenAI format 409 says that something is locked for a moment.
  return status === 409 || isPassingStatus(status)
}
