import { isOsmosisError, OsmosisError } from '@osmosis/core'

/**
 * What the policy refused, as an error that the SDK does not retry. The SDK would make an
 * `APICallError` of the response and, for a 429 or 5xx, ask twice more what was asked three times.
 */
export async function refusalOf(response: Response): Promise<OsmosisError> {
  const { error } = (await response.json()) as {
    error: { message: string; code: 'policy_http_error' | 'policy_unreachable' }
  }
  // The status of an endpoint that could not be reached is made up.
  const status = error.code === 'policy_http_error' ? { status: response.status } : {}
  return new OsmosisError(error.code, error.message, status)
}

/** An error that ended an answer which had begun; those of the rollout stay as they are. */
export function answerError(error: unknown): Error {
  if (isOsmosisError(error)) return error
  const said = error instanceof Error ? error.message : JSON.stringify(error)
  return new OsmosisError(
    'policy_stream_error',
    `The AI SDK could not read the answer of the policy: ${said}`,
    { cause: error },
  )
}
