import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { retryRequest } from '@osmosis/core/http'
import { leaseHeader } from '@osmosis/runtime/wire'

import type { ServerAnswer, ServerRequest } from '../http/server-client.ts'
import type { Lease } from './admission.ts'
import { isTerminal, leasedResult, type LeasedResult } from './leased-result.ts'
import {
  askInTime,
  brokenAnswer,
  readBody,
  refusedBy,
  type ServerConnection,
} from './server-requests.ts'

/** Longest pauses before the next try after a request that got no answer. Milliseconds. */
const pauses = { minDelayMs: 200, maxDelayMs: 5000 }
/** How much longer than the server's own wait an answer may take. Milliseconds. */
const slackMs = 10_000

/**
 * Asks for the result of a rollout, again and again until that is terminal; asking is what keeps
 * the lease. A server that does not answer may be starting again: it is asked for as long as the lease
 * may last, counted from the last request that was answered. `onResult` gets every answer.
 *
 * @throws OsmosisError with code `unauthorized` or `protocol_error` when there is none to be had;
 * the reason of `signal`
 */
export async function followResult(
  connection: ServerConnection,
  lease: Lease,
  { signal, onResult }: { signal: AbortSignal; onResult: (result: LeasedResult) => void },
): Promise<void> {
  let renewedAt = lease.sentAt
  for (;;) {
    const { result, sentAt } = await askForResult(connection, lease, { signal, renewedAt })
    renewedAt = sentAt
    onResult(result)
    if (isTerminal(result.status)) return
  }
}

async function askForResult(
  connection: ServerConnection,
  lease: Lease,
  { signal, renewedAt }: { signal: AbortSignal; renewedAt: number },
): Promise<{ result: LeasedResult; sentAt: number }> {
  const heardAt = performance.now()
  const lapsesAt = renewedAt + lease.leaseMs
  const longestMs = lease.waitMs + slackMs
  const request = {
    path: `/rollout/${encodeURIComponent(lease.rolloutId)}/result`,
    headers: { [leaseHeader]: lease.token },
  }
  const ask = async (attempt: number): Promise<{ result: LeasedResult; sentAt: number }> => {
    const sentAt = performance.now()
    // The first one renews the lease. Later ones may not have been heard of, and do not outlast it.
    const leftMs = attempt === 1 ? longestMs : Math.ceil(lapsesAt - sentAt)
    const limitMs = Math.min(longestMs, leftMs)
    const answer = await askInTime(connection, request, { limitMs, signal })
    return { result: readResult(request, answer, lease.rolloutId), sentAt }
  }
  try {
    const retries = Number.POSITIVE_INFINITY
    const totalMs = lapsesAt - heardAt
    return await retryRequest(ask, { ...pauses, retries, totalMs, signal, isRetryable: mayPass })
  } catch (error) {
    throw mayPass(error) ? unanswered(lease, performance.now() - heardAt, error) : error
  }
}

function unanswered(
  lease: Lease,
  silentMs: number,
  { message, cause }: OsmosisError,
): OsmosisError {
  const silent = `The rollout server did not answer for ${Math.round(silentMs / 100) / 10} s`
  const lapsed = `its lease of ${lease.leaseMs / 1000} s for "${lease.rolloutId}" may have lapsed`
  return new OsmosisError('protocol_error', `${silent}, and ${lapsed}. ${message}`, { cause })
}

function readResult(request: ServerRequest, answer: ServerAnswer, rolloutId: string): LeasedResult {
  if (answer.status !== 200) throw refusedBy(request, answer, adviceFor(answer.status))
  const result = readBody(request, answer, leasedResult)
  if (result.rolloutId === rolloutId) return result
  throw brokenAnswer(request, answer, `is about ${JSON.stringify(result.rolloutId)}`)
}

function adviceFor(status: number): string {
  if (status === 404) {
    return 'The server does not know the rollout: it was restarted, or the result was too old. Send the rollout again under a new rolloutId.'
  }
  if (status === 403) return 'The lease is of another rollout: has its id been used twice?'
  return 'The rollout ends when its lease lapses.'
}

/**
 * What the server answered stays as it is. It may answer later where a connection broke off or was silent,
 * or where a proxy answers for it while it starts again.
 */
function mayPass(error: unknown): error is OsmosisError {
  if (!isOsmosisError(error) || error.code !== 'protocol_error') return false
  if (error.status !== undefined) return ofProxies.has(error.status)
  const { code } = (error.cause ?? {}) as { code?: unknown }
  return !unsendable.has(code)
}

/** Bad gateway, service unavailable, gateway timeout. */
const ofProxies = new Set([502, 503, 504])

/** undici's words for what cannot be sent. */
const unsendable = new Set<unknown>(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED'])
