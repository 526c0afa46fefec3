import { errorMessage, isOsmosisError } from '@osmosis/core'
import { transportsByEgress } from '@osmosis/core/http'
import { isRetryableStatus } from '@osmosis/core/policy'

import {
  OsmosisRolloutError,
  OsmosisServerError,
  OsmosisTransportError,
  OsmosisValidationError,
} from '../rollout-errors.ts'

const keyHint = '. Check the api_key that the rollout was sent with.'

/** The connections of all model calls of this process that may lead to the same places. */
export const trainerTransport = transportsByEgress({
  name: 'policy endpoint',
  codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
  hints: {
    401: keyHint,
    403: keyHint,
    404: '. server_url is a base URL: "/v1/chat/completions" is appended to it.',
  },
  isPassingStatus: isRetryableStatus,
})

/** A failed model call as an error of this package. Whatever ended the rollout stays what it is. */
export function toChatError(error: unknown): unknown {
  if (error instanceof OsmosisRolloutError || !isOsmosisError(error)) return error
  const { message, status, retryAfterMs } = error
  const options = { cause: error, status, retryAfterMs }
  if (error.code === 'policy_unreachable') return new OsmosisTransportError(message, options)
  if (error.code !== 'policy_http_error' && error.code !== 'egress_refused') return error
  return (status ?? 0) >= 500
    ? new OsmosisServerError(message, options)
    : new OsmosisValidationError(error.code, message, options)
}

/** An answer that broke off after its status line: asking again would be a second answer. */
export function brokenAnswer(error: unknown): OsmosisTransportError {
  return new OsmosisTransportError(
    `The trainer's answer to a model call broke off: ${errorMessage(error)}`,
    { cause: error },
  )
}

/** Address of a route of the trainer. A base path is kept, slashes at its end are not. */
export function trainerUrl(serverUrl: string, route: string): string {
  return `${serverUrl.replace(/\/+$/, '')}${route}`
}

/** A rollout id as it can stand in a header: ids are free text, headers are not. */
export function headerSafe(rolloutId: string): string {
  return encodeURIComponent(rolloutId.toWellFormed())
}
