import { createTransport } from '@osmosis/core/http'
import { isRetryableStatus } from '@osmosis/core/policy'

const keyHint = '. Check the api_key that the rollout was sent with.'

/** The connections of all model calls of this process. */
export const trainerTransport = createTransport({
  name: 'policy endpoint',
  codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
  hints: {
    401: keyHint,
    403: keyHint,
    404: '. server_url is a base URL: "/v1/chat/completions" is appended to it.',
  },
  isPassingStatus: isRetryableStatus,
})
