import { isOsmosisError } from '@osmosis/core'
import type { RolloutStatus, LeasedRolloutRequestBody } from '@osmosis/protocol/wire'

import { admit, followResult, type Lease, type LeasedResult } from '../client/lease.ts'
import type { ServerConnection } from '../http/server-client.ts'
import type { RolloutFacts } from '../session/rollout-sessions.ts'
import type { CompletionReport, RolloutOutcome } from './rollout-outcome.ts'

/** The fetched result of a rollout. */
export interface FetchedEnd {
  readonly result: LeasedResult
  /** From the first `grading` status to the end. Milliseconds; null without that status. */
  readonly gradingMs: number | null
}

/**
 * Sends an order whose result is to be fetched. Undefined when the server refuses its body, because it supports
 * only callbacks.
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
 * @throws OsmosisError with code `unauthorized` or `protocol_error` when the result cannot be fetched; the
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

/** The outcome of a fetched result. Its only sample has no name on the wire. */
export function leasedOutcome(
  facts: RolloutFacts,
  { result, gradingMs }: FetchedEnd,
): RolloutOutcome {
  const { status, sample, errorMessage, errorCategory } = result
  const ending = status === 'success' || status === 'cancelled' ? status : 'failure'
  const why = { errorMessage, errorCategory }
  // The result does not say which of workflow and grader failed. If grading started, the workflow had not failed.
  const completion: CompletionReport =
    ending === 'failure' && gradingMs !== null
      ? { status: 'success', errorMessage: null, errorCategory: null, extraFields: null }
      : { status: ending, ...why, extraFields: null }
  return {
    ...facts,
    status: ending,
    samples: new Map(sample === null ? [] : [['sample', { id: 'sample', ...sample, calls: [] }]]),
    ...why,
    completion,
    gradingMs,
  }
}
