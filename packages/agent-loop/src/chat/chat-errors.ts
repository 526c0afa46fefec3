import { errorMessage, isOsmosisError } from '@osmosis/core'

import {
  OsmosisRolloutError,
  OsmosisServerError,
  OsmosisTransportError,
  OsmosisValidationError,
} from '../rollout-errors.ts'

/** A failed model call as an error of this package. Whatever ended the rollout stays what it is. */
export function toChatError(error: unknown): unknown {
  if (error instanceof OsmosisRolloutError || !isOsmosisError(error)) return error
  const { message, status, retryAfterMs } = error
  const options = { cause: error, status, retryAfterMs }
  if (error.code === 'policy_unreachable') return new OsmosisTransportError(message, options)
  if (error.code !== 'policy_http_error') return error
  return (status ?? 0) >= 500
    ? new OsmosisServerError(message, options)
    : new OsmosisValidationError('policy_http_error', message, options)
}

/** An answer that broke off after its status line: asking again would be a second answer. */
export function brokenAnswer(error: unknown): OsmosisTransportError {
  return new OsmosisTransportError(
    `The trainer's answer to a model call broke off: ${errorMessage(error)}`,
    { cause: error },
  )
}
