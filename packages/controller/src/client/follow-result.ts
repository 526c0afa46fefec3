import { isOsmosisError } from '@osmosis/core'
import { wait } from '@osmosis/core/http'
import { leaseHeader } from '@osmosis/core/wire'

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

/** Pauses before the tries after a request that got no answer. Milliseconds. */
const pausesMs = [100, 500]
/** How much longer than the server's own wait an answer may take. Milliseconds. */
const slackMs = 10_000

/**
 * Asks for the result of a rollout, again and again until that is terminal; asking is what keeps
 * the lease. `onResult` gets every answer.
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
  const limitMs = lease.waitMs + slackMs
  const request = {
    path: `/rollout/${encodeURIComponent(lease.rolloutId)}/result`,
    headers: { [leaseHeader]: lease.token },
  }
  for (let tries = 0; ; tries += 1) {
    const sentAt = performance.now()
    try {
      const answer = await askInTime(connection, request, { limitMs, signal })
      return { result: readResult(request, answer, lease.rolloutId), sentAt }
    } catch (error) {
      signal.throwIfAborted()
      const pause = pausesMs[tries]
      if (pause === undefined || !mayPass(error)) throw error
      // A try that may outlast the lease would only find out that it has lapsed.
      if (performance.now() + pause + limitMs > renewedAt + lease.leaseMs) throw error
      await wait(pause, signal)
    }
  }
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

/** Whatever was answered stays as it is; a connection that broke off or was silent may work again. */
function mayPass(error: unknown): boolean {
  if (!isOsmosisError(error) || error.code !== 'protocol_error') return false
  const { code } = (error.cause ?? {}) as { code?: unknown }
  return error.status === undefined && !hopeless.has(code)
}

/** undici's words for a server that cannot be connected to in time, and for what cannot be sent. */
const hopeless = new Set<unknown>([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_INVALID_ARG',
  'UND_ERR_NOT_SUPPORTED',
])
