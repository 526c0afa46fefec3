import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { wait, withTimeLimit } from '@osmosis/core/http'
import {
  leasedRolloutAcceptedSchema,
  type LeasedRolloutAcceptedBody,
  type LeasedRolloutRequestBody,
} from '@osmosis/runtime/wire'

import { pauseMs, type ServerAnswer, type ServerRequest } from '../http/server-client.ts'
import { brokenAnswer, readBody, refusedBy, type ServerConnection } from './server-requests.ts'

/** A rollout that a server has admitted, and the right to its result. */
export interface Lease {
  readonly rolloutId: string
  readonly token: string
  /** Longest time a request for the result waits at the server. Milliseconds. */
  readonly waitMs: number
  /** How long the server keeps the rollout going without such a request. Milliseconds. */
  readonly leaseMs: number
  /** When the order that was admitted went out, by `performance.now()`. */
  readonly sentAt: number
}

// Its id may by now belong to the rollout, to one of somebody else, or to none.
const unsure =
  'The rollout may have been admitted all the same; then it ends when its lease lapses. Do not cancel it by its id, and send it again under a new rolloutId.'

/**
 * Sends an order until the server has room for it: again after 429, and after nothing else.
 *
 * @param options.limitMs - for all of that; Infinity for none
 * @throws OsmosisError with code `timeout` when the time is up, `unauthorized` or `protocol_error`;
 * the reason of `signal`
 */
export async function admit(
  connection: ServerConnection,
  body: LeasedRolloutRequestBody,
  { limitMs, signal }: { limitMs: number; signal: AbortSignal },
): Promise<Lease> {
  const request = { path: '/rollout', body }
  let isPending = false
  const late = (): OsmosisError => notInTime(body.rollout_id, limitMs, isPending)
  return withTimeLimit({ limitMs, outer: signal, late }, async (limited) => {
    for (;;) {
      const sentAt = performance.now()
      isPending = true
      const answer = await sendOnce(connection, request, limited)
      isPending = false
      if (answer.status === 202) return readLease(request, answer, sentAt)
      if (answer.status !== 429) throw refusedBy(request, answer, adviceFor(answer))
      await wait(pauseMs(answer), limited)
    }
  })
}

async function sendOnce(
  { server, client }: ServerConnection,
  request: ServerRequest,
  signal: AbortSignal,
): Promise<ServerAnswer> {
  try {
    return await client.send(server, request, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (!isOsmosisError(error)) throw error
    const { cause, message } = error
    // Without a connection nothing was sent.
    if (unconnected.has((cause as { code?: unknown } | undefined)?.code)) throw error
    throw new OsmosisError('protocol_error', `${message} ${unsure}`, { cause })
  }
}

const unconnected = new Set<unknown>(['ECONNREFUSED', 'ENOTFOUND', 'UND_ERR_CONNECT_TIMEOUT'])

function readLease(
  request: ServerRequest & { readonly body: LeasedRolloutRequestBody },
  answer: ServerAnswer,
  sentAt: number,
): Lease {
  const accepted = readBody(request, answer, leasedRolloutAcceptedSchema)
  const fault = faultOf(accepted, request.body.rollout_id)
  if (fault !== undefined) throw brokenAnswer(request, answer, fault)
  return {
    rolloutId: accepted.rollout_id,
    token: accepted.polling_lease_token,
    waitMs: accepted.result_wait_timeout_sec * 1000,
    leaseMs: accepted.polling_lease_timeout_sec * 1000,
    sentAt,
  }
}

function faultOf(accepted: LeasedRolloutAcceptedBody, rolloutId: string): string | undefined {
  const {
    rollout_id: id,
    polling_lease_timeout_sec: lease,
    result_wait_timeout_sec: longest,
  } = accepted
  if (id !== rolloutId) return `is about ${JSON.stringify(id)}, not ${JSON.stringify(rolloutId)}`
  return lease > longest ? undefined : `gives a lease of ${lease} s for waits of ${longest} s`
}

function notInTime(rolloutId: string, limitMs: number, isPending: boolean): OsmosisError {
  const waited = `The rollout ${JSON.stringify(rolloutId)} was not admitted within ${limitMs / 1000} s`
  return new OsmosisError(
    'timeout',
    isPending
      ? `${waited}, and the server had not answered. ${unsure}`
      : `${waited}: the server was full. It does not run; send it later.`,
  )
}

function adviceFor({ status, text }: ServerAnswer): string {
  if (status === 409) {
    return 'Give every attempt a rolloutId of its own, or none. Do not cancel this one: it may be of somebody else.'
  }
  if (status === 422 && text.includes('completion_callback_url')) {
    return 'This server sends its results to callbacks only: it is older than leased results. Send it rollouts with createController.'
  }
  if (status === 503)
    return 'The server is draining, which is for good: send the rollout to another.'
  return 'Only 202 admits a rollout, and only 429 asks for a repetition.'
}
