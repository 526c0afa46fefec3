import { awayPatienceMs, retryAfterMs, wait } from '@osmosis/core/http'

import { type PolicyModel, type PolicyRequest, policyErrorBody } from './policy-model.ts'
import { refusalText, saysAway, systemicFailure } from './watch-policy.ts'

/** Retries of a 503 with `Retry-After`. */
const maxRetries = 3
const maxPauseMs = 60_000
/** Longest wait for a policy that is away, which may be back at any time. */
const maxLookMs = 2_000
/** Attempts of one call before the policy counts as failed. */
const minAttempts = 3
const maxTextLength = 500

/** Options of {@link patientPolicy}. */
export interface PatientPolicyOptions {
  /**
   * How long the endpoint may answer all calls with 429 before they fail. Milliseconds. Default: 600,000.
   */
  readonly patienceMs?: number
  /**
   * Longest wait after a first 429 without `Retry-After`; doubles each time, up to a minute. Milliseconds.
   * Default: 1,000.
   */
  readonly firstPauseMs?: number
  /**
   * How long the endpoint may be away before calls fail: it cannot be reached, closes connections before it answers, or says with
   * 503 that it loads its model. Milliseconds. Default: 90,000.
   */
  readonly awayMs?: number
  /** Called before a call waits. Milliseconds, and the status of the refusal. */
  readonly onWait?: ((pauseMs: number, status: number) => void) | undefined
  /** A policy whose failure is also reported. Default: none. */
  readonly watched?: { readonly failure: string | null }
}

/** A policy that waits and retries after 429. */
export interface PatientPolicy extends PolicyModel {
  /** Why later model calls would fail, too; null until that is known. */
  readonly failure: string | null
  /** How many calls were answered with 429 so far. */
  readonly refusals: number
}

/**
 * A policy that retries at an overloaded endpoint. A call that is answered with 429 is retried: after the
 * `Retry-After` of the endpoint, during which all other calls wait, too, or else after a random backoff. A 503
 * with `Retry-After` is retried up to three times. The last refusal is forwarded without that header, so that its reader does not wait
 * again. While the endpoint is away, calls wait until it is back, for 90 seconds; after that it counts as gone, and calls are refused
 * with 424, which no client retries. All other answers are forwarded unchanged. The creator of `policy` closes it.
 */
export function patientPolicy(
  policy: PolicyModel,
  {
    patienceMs = 600_000,
    firstPauseMs = 1_000,
    awayMs = awayPatienceMs,
    onWait,
    watched,
  }: PatientPolicyOptions = {},
): PatientPolicy {
  let resumeAt = 0
  let refusals = 0
  /** Start of an uninterrupted series of 429. */
  let refusedSince: number | undefined
  /** When the endpoint was last not away. */
  let heardAt = 0
  let failure: string | null = null

  function noteRefusal(text: string, attempts: number): void {
    refusals += 1
    refusedSince ??= performance.now()
    if (attempts < minAttempts || performance.now() - refusedSince < patienceMs) return
    const minutes = Math.round(patienceMs / 60_000)
    failure ??= `The policy has answered nothing but 429 for ${minutes} minutes: ${text.slice(0, maxTextLength)}`
  }

  function pauseAll({ headers }: Response): void {
    const requestedMs = retryAfterMs(headers)
    if (requestedMs === undefined) return
    resumeAt = Math.max(resumeAt, performance.now() + Math.min(requestedMs, maxPauseMs))
  }

  /** Waits while the endpoint is away. */
  async function answerOnceBack(request: PolicyRequest): Promise<Response> {
    let awaySince: number | undefined
    for (let attempts = 1; ; attempts += 1) {
      const answer = await policy.respond(request)
      const { status } = answer
      // Before anything else is awaited, because other calls may be about to start.
      if (status === 429 || status === 503) pauseAll(answer)
      const requestsPause = retryAfterMs(answer.headers) !== undefined
      const mayBeAway = status === 502 || (status === 503 && !requestsPause)
      const text = mayBeAway ? await answer.text() : ''
      const now = performance.now()
      if (!saysAway(status, text)) {
        heardAt = now
        return mayBeAway ? new Response(text, answer) : answer
      }
      awaySince ??= now
      if (watched?.failure) return new Response(text, answer)
      if (failure !== null) return unusable(failure)
      if (now - awaySince >= awayMs) {
        const why = systemicFailure(status, text) ?? refusalText(status, text)
        const gone = `${why}\nIt has been away for ${awayMs / 1000} seconds.`
        // When others were answered meanwhile, only this call has failed.
        if (heardAt < awaySince) failure ??= gone
        return unusable(gone)
      }
      const pauseMs = Math.min(backoffMs(firstPauseMs, attempts), maxLookMs)
      onWait?.(pauseMs, status)
      await wait(pauseMs, request.signal)
    }
  }

  return {
    name: policy.name,
    get failure() {
      return watched?.failure ?? failure
    },
    get refusals() {
      return refusals
    },
    async respond(request) {
      for (let attempts = 1; ; attempts += 1) {
        // In a loop, because another call may have prolonged the wait.
        while (performance.now() < resumeAt) {
          await wait(resumeAt - performance.now(), request.signal)
        }
        const answer = await answerOnceBack(request)
        const { status } = answer
        if (status !== 429) refusedSince = undefined
        if (status !== 429 && status !== 503) return answer
        const requestedMs = retryAfterMs(answer.headers)
        const text = await answer.text()
        if (status === 503 && requestedMs === undefined) return new Response(text, answer)
        const pauseMs = Math.min(requestedMs ?? backoffMs(firstPauseMs, attempts), maxPauseMs)
        if (status === 429) noteRefusal(text, attempts)
        const isOver =
          status === 429
            ? failure !== null || systemicFailure(status, text) !== null
            : attempts > maxRetries
        if (isOver) return withoutPause(answer, text)
        onWait?.(pauseMs, status)
        if (requestedMs === undefined) await wait(pauseMs, request.signal)
      }
    },
  }
}

/** Random, so that calls that were refused together are not retried together. */
function backoffMs(firstPauseMs: number, attempts: number): number {
  const cap = Math.min(firstPauseMs * 2 ** (attempts - 1), maxPauseMs)
  return cap * (0.5 + Math.random() / 2)
}

function unusable(failure: string): Response {
  return Response.json(policyErrorBody(424, 'policy_unusable', failure), { status: 424 })
}

function withoutPause({ status, headers }: Response, text: string): Response {
  const left = new Headers(headers)
  left.delete('retry-after')
  left.delete('retry-after-ms')
  return new Response(text, { status, headers: left })
}
