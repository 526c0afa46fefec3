import { isOsmosisError } from '@osmosis/core'

/** What an error of sending one rollout means for the evaluation. */
export type ErrorMeaning =
  /** The server refused this rollout; others may pass. */
  | 'item-failed'
  /** No further rollout has a chance, but those under way may still come to their end. */
  | 'halt'
  /** There is nobody who could bring those under way to their end. */
  | 'halt-and-cancel'

/**
 * Judges what `runRollout` threw. A wrong key is the server's 4xx too, but every further rollout
 * would be refused just the same.
 */
export function classifyError(error: unknown): ErrorMeaning {
  if (!isOsmosisError(error)) return 'halt'
  if (error.code === 'invalid_request') return 'item-failed'
  if (error.code !== 'protocol_error') return 'halt'
  if (error.status === undefined) return 'halt-and-cancel'
  return error.status >= 400 && error.status < 500 ? 'item-failed' : 'halt'
}
