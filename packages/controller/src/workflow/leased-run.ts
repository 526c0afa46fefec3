import { isOsmosisError } from '@osmosis/core'
import type { RolloutStatus, LeasedRolloutRequestBody } from '@osmosis/runtime/wire'

import { admit, type Lease } from '../client/admission.ts'
import { followResult } from '../client/follow-result.ts'
import type { LeasedResult } from '../client/leased-result.ts'
import type { ServerConnection } from '../client/server-requests.ts'
import type { RolloutFacts } from '../session/rollout-session.ts'
import type { CompletionReport, RolloutOutcome } from './rollout-outcome.ts'

/** How a rollout ended whose result was fetched. */
export interface FetchedEnd {
  readonly result: LeasedResult
  /** From the first sign of grading to the end. Milliseconds; null when there was none. */
  readonly gradingMs: number | null
}

/**
 * Sends an order whose result is to be fetched. Undefined when the server refuses its body: servers that
 * know callbacks only do.
 *
 * @throws OsmosisError with code `unauthorized` or `protocol_error` for any other refusal; the reason of
 * `signal`
 */
export async function admitLeased(
  connection: ServerConnection,
  body: LeasedRolloutRequestBody,
  signal: AbortSignal,
): Promise<Lease | undefined> {
  try {
    return await admit(connection, body, { limitMs: Infinity, signal })
  } catch (error) {
    if (isOsmosisError(error) && error.status === 422) return undefined
    throw error
  }
}

/**
 * Fetches the result of a rollout until it has ended.
 *
 * @throws OsmosisError with code `unauthorized` or `protocol_error` when there is none to be had; the
 * reason of `signal`
 */
export async function followLeased(
  connection: ServerConnection,
  lease: Lease,
  {
    signal,
    onStatus,
  }: { readonly signal: AbortSignal; readonly onStatus: (status: RolloutStatus) => void },
): Promise<FetchedEnd> {
  const end: { result?: LeasedResult; gradingAt?: number } = {}
  await followResult(connection, lease, {
    signal,
    onResult(result) {
      if (result.status === 'grading') end.gradingAt ??= performance.now()
      if (result.status !== end.result?.status) onStatus(result.status)
      end.result = result
    },
  })
  const { result, gradingAt } = end
  if (result === undefined)
    throw new TypeError('a rollout was followed to its end without a result')
  return { result, gradingMs: gradingAt === undefined ? null : performance.now() - gradingAt }
}

/** The outcome that a fetched result is. Its only sample has no name on the wire. */
export function leasedOutcome(
  facts: RolloutFacts,
  { result, gradingMs }: FetchedEnd,
): RolloutOutcome {
  const { status, sample, errorMessage, errorCategory } = result
  const ending = status === 'success' || status === 'cancelled' ? status : 'failure'
  const why = { errorMessage, errorCategory }
  // Whether the workflow or the grader has failed is not said; one that was graded had not failed before.
  const completion: CompletionReport =
    ending === 'failure' && gradingMs !== null
      ? { status: 'success', errorMessage: null, errorCategory: null, extraFields: null }
      : { status: ending, ...why, extraFields: null }
  return {
    ...facts,
    status: ending,
    samples: new Map(sample === null ? [] : [['sample', { id: 'sample', ...sample }]]),
    ...why,
    completion,
    gradingMs,
  }
}
