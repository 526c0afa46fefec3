import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { retryRequest, wait, withTimeLimit } from '@osmosis/core/http'
import {
  leasedResultSchema,
  leasedRolloutAcceptedSchema,
  leaseHeader,
  singleSampleSchema,
  type LeasedErrorCategory,
  type LeasedRolloutAcceptedBody,
  type LeasedRolloutRequestBody,
  type RolloutStatus,
} from '@osmosis/protocol/wire'
import { z } from 'zod'

import {
  brokenAnswer,
  pauseMs,
  readBody,
  refusedBy,
  sendInTime,
  type ServerAnswer,
  type ServerConnection,
  type ServerRequest,
} from '../http/server-client.ts'
import type { ResultSample } from '../workflow/rollout-outcome.ts'

/** A rollout server's report on a rollout: its status, and its result once it has ended. */
export interface LeasedResult {
  readonly rolloutId: string
  readonly status: RolloutStatus
  /** Null until the end, and unless there is exactly one. */
  readonly sample: Omit<ResultSample, 'id' | 'calls'> | null
  /** Null for a success, and until the end. */
  readonly errorMessage: string | null
  /** Null for a success, until the end, and for an unknown category. */
  readonly errorCategory: LeasedErrorCategory | null
}

// The server sends only reward and label of a sample that has no JSON form.
const sample = singleSampleSchema.extend({ messages: z.array(z.unknown()).default([]) })
const resultSchema = leasedResultSchema.extend({ sample: sample.nullable() })

/** An answer of `GET /rollout/{id}/result`. */
const leasedResult: z.ZodType<LeasedResult> = resultSchema.transform((body) => ({
  rolloutId: body.rollout_id,
  status: body.status,
  sample: body.sample && {
    messages: body.sample.messages,
    label: body.sample.label ?? null,
    reward: body.sample.reward ?? null,
    removeSample: body.sample.remove_sample,
    metrics: body.sample.metrics,
    extraFields: body.sample.extra_fields,
  },
  errorMessage: body.err_message,
  errorCategory: body.err_category,
}))

/** Whether a rollout with this status has ended. */
export function isTerminal(status: RolloutStatus): boolean {
  return status === 'success' || status === 'failure' || status === 'cancelled'
}

/** An admitted rollout, and the right to fetch its result. */
export interface Lease {
  readonly rolloutId: string
  readonly token: string
  /** Longest time a request for the result waits at the server. Milliseconds. */
  readonly waitMs: number
  /** How long the rollout continues without such a request. Milliseconds. */
  readonly leaseMs: number
  /** When the admitted order was sent, by `performance.now()`. */
  readonly sentAt: number
}

// The id may belong to this rollout, to another caller's, or to none.
const unsure =
  'The rollout may have been admitted; then it ends when its lease expires. Do not cancel it by its id, and send it again under a new rolloutId.'

/**
 * Sends an order until the server has room for it. Retries after 429 only.
 *
 * @param options.limitMs - for all attempts; Infinity for no limit
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
      if (answer.status !== 429) throw refusedBy(request, answer, admissionAdvice(answer))
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
    if (isUnconnected(cause)) throw error
    throw new OsmosisError('protocol_error', `${message} ${unsure}`, { cause })
  }
}

/** Whether there was no connection, so that nothing was sent: its address was not found, or could not be reached. */
function isUnconnected(cause: unknown): boolean {
  // The error of a name with several addresses.
  if (cause instanceof AggregateError) return true
  const { code, syscall } = (cause ?? {}) as { code?: unknown; syscall?: unknown }
  return syscall === 'getaddrinfo' || syscall === 'connect' || code === 'UND_ERR_CONNECT_TIMEOUT'
}

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

function admissionAdvice({ status, text }: ServerAnswer): string {
  if (status === 409) {
    return 'Give every attempt its own rolloutId, or none. Do not cancel this one: it may belong to another caller.'
  }
  if (status === 422 && text.includes('completion_callback_url')) {
    return 'This server sends its results to callbacks only: it is older than leased results. Send it rollouts with createController.'
  }
  if (status === 503)
    return 'The server is draining and will not accept rollouts again: send the rollout to another one.'
  return 'Only 202 admits a rollout, and only 429 is retried.'
}

/** Pauses after a request without an answer. Milliseconds. */
const pauses = { minDelayMs: 200, maxDelayMs: 5000 }
/** How much longer than the server's wait an answer may take. Milliseconds. */
const slackMs = 10_000

/**
 * Polls the result of a rollout until it is terminal; each poll renews the lease. A server that does not
 * answer may be restarting: it is polled until the lease expires, counted from the last answered request.
 * `onResult` gets every answer.
 *
 * @throws OsmosisError with code `unauthorized` or `protocol_error` when the result cannot be fetched; the
 * reason of `signal`
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
  const startedAt = performance.now()
  const lapsesAt = renewedAt + lease.leaseMs
  const longestMs = lease.waitMs + slackMs
  const request = {
    path: `/rollout/${encodeURIComponent(lease.rolloutId)}/result`,
    headers: { [leaseHeader]: lease.token },
  }
  /** What a proxy answered to the request before; undefined when that had no answer. */
  let proxyAnswer: OsmosisError | undefined
  const poll = async (attempt: number): Promise<{ result: LeasedResult; sentAt: number }> => {
    const sentAt = performance.now()
    // The first attempt renews the lease. Later ones may not have arrived, and end with the lease.
    const leftMs = attempt === 1 ? longestMs : Math.ceil(lapsesAt - sentAt)
    const limitMs = Math.min(longestMs, leftMs)
    try {
      const answer = await sendInTime(connection, request, { limitMs, signal })
      return { result: readResult(request, answer, lease.rolloutId), sentAt }
    } catch (error) {
      if (!isTransient(error)) throw error
      // What a proxy answered says more than a request that the end of the lease cut short.
      const isTimeout = error.status === undefined && error.cause === undefined
      if (isTimeout && limitMs < longestMs && proxyAnswer !== undefined) throw proxyAnswer
      proxyAnswer = error.status === undefined ? undefined : error
      throw error
    }
  }
  try {
    const retries = Number.POSITIVE_INFINITY
    const totalMs = lapsesAt - startedAt
    return await retryRequest(poll, {
      ...pauses,
      retries,
      totalMs,
      signal,
      isRetryable: isTransient,
    })
  } catch (error) {
    throw isTransient(error) ? unanswered(lease, performance.now() - startedAt, error) : error
  }
}

function unanswered(
  lease: Lease,
  silentMs: number,
  { message, cause }: OsmosisError,
): OsmosisError {
  const silent = `The rollout server did not answer for ${Math.round(silentMs / 100) / 10} s`
  const lapsed = `its lease of ${lease.leaseMs / 1000} s for "${lease.rolloutId}" may have expired`
  return new OsmosisError('protocol_error', `${silent}, and ${lapsed}. ${message}`, { cause })
}

function readResult(request: ServerRequest, answer: ServerAnswer, rolloutId: string): LeasedResult {
  if (answer.status !== 200) throw refusedBy(request, answer, resultAdvice(answer.status))
  const result = readBody(request, answer, leasedResult)
  if (result.rolloutId === rolloutId) return result
  throw brokenAnswer(request, answer, `is about ${JSON.stringify(result.rolloutId)}`)
}

function resultAdvice(status: number): string {
  if (status === 404) {
    return 'The server does not know the rollout: it was restarted, the result has expired, or a load balancer asked another server than the one that accepted it. Send the rollout again under a new rolloutId; a balancer has to send a caller to one server, by address or key.'
  }
  if (status === 403) return 'The lease belongs to another rollout: was its id used twice?'
  return 'The rollout ends when its lease expires.'
}

/**
 * Whether an error is transient: the connection broke or timed out, or a proxy answered while the server
 * restarts. An answer of the server itself is final.
 */
function isTransient(error: unknown): error is OsmosisError {
  if (!isOsmosisError(error) || error.code !== 'protocol_error') return false
  if (error.status !== undefined) return ofProxies.has(error.status)
  const { code } = (error.cause ?? {}) as { code?: unknown }
  return !unsendable.has(code)
}

/** Bad gateway, service unavailable, gateway timeout. */
const ofProxies = new Set([502, 503, 504])

/** undici's codes for requests that cannot be sent. */
const unsendable = new Set<unknown>(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED'])
