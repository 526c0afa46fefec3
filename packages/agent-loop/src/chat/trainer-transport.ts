import { errorMessage, isOsmosisError } from '@osmosis/core'
import { transportsByEgress } from '@osmosis/core/http'
import { isRetryableStatus } from '@osmosis/core/policy'

import {
  OsmosisRolloutError,
  OsmosisServerError,
  OsmosisTransportError,
  OsmosisValidationError,
} from '../rollout-errors.ts'

const keyHint = '. Check the api_key of the rollout request.'

/** The connections for all model calls of this process with the same egress policy. */
export const trainerTransport = transportsByEgress({
  name: 'policy endpoint',
  codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
  hints: {
    401: keyHint,
    403: keyHint,
    404: '. server_url is a base URL: "/v1/chat/completions" is appended to it.',
  },
  isTransientStatus: isRetryableStatus,
})

/** Converts a failed model call to an error of this package. The error that ended the rollout is not converted. */
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

/** An answer that ended early. It is not retried, because that would get a second answer. */
export function brokenAnswer(error: unknown): OsmosisTransportError {
  return new OsmosisTransportError(
    `The connection closed during the trainer's answer to a model call: ${errorMessage(error)}`,
    { cause: error },
  )
}

/** URL of a route of the trainer. Keeps a base path, without slashes at its end. */
export function trainerUrl(serverUrl: string, route: string): string {
  return `${serverUrl.replace(/\/+$/, '')}${route}`
}

/** A rollout id in header form: ids are free text, headers are not. */
export function headerSafe(rolloutId: string): string {
  return encodeURIComponent(rolloutId.toWellFormed())
}
