import { retryAfterMs, wait } from '@osmosis/core/http'

import type { PolicyModel } from './policy-model.ts'
import { systemicFailure } from './watch-policy.ts'

const mostRetries = 3
/** An endpoint may not make everybody wait longer than this at a time. Milliseconds. */
const longestPauseMs = 60_000
/** Of one call, before it is said that nothing else is answered. */
const fewestTries = 3
const longestText = 500

/** Options of {@link patientPolicy}. */
export interface PatientPolicyOptions {
  /**
   * How long nothing but 429 may be answered, whoever asks, before calls are put off no longer.
   * Milliseconds. Default: 600,000.
   */
  readonly patienceMs?: number
  /**
   * Most that a call waits after a first 429 that names no time; doubles with each, up to a minute.
   * Milliseconds. Default: 1,000.
   */
  readonly firstPauseMs?: number
  /** Called before a call waits. Milliseconds, and the status of the refusal. */
  readonly onWait?: ((pauseMs: number, status: number) => void) | undefined
  /** Whose failure is that of the patient policy as well. Default: it has one of its own alone. */
  readonly watched?: { readonly failure: string | null }
}

/** A policy whose refusals are waited out. */
export interface PatientPolicy extends PolicyModel {
  /** Why no later model call can be answered either; null as long as that is not known. */
  readonly failure: string | null
  /** How many calls were answered 429 so far: whoever makes them concurrently makes too many. */
  readonly refusals: number
}

/**
 * A policy that does as an overloaded endpoint asks. A call that is answered 429 is made again until it is
 * not: after the time that the endpoint names, in which nobody else asks either, or else after one of its
 * own, which doubles and is spread. So is a call that is answered 503 with a time, up to three times. The
 * last refusal is passed on without that time, which would make its reader wait on; all other answers are
 * passed on as they are. Whoever made `policy` still closes it.
 */
export function patientPolicy(
  policy: PolicyModel,
  { patienceMs = 600_000, firstPauseMs = 1_000, onWait, watched }: PatientPolicyOptions = {},
): PatientPolicy {
  let resumeAt = 0
  let refusals = 0
  /** Since when nothing else was answered. */
  let refusedSince: number | undefined
  let impatience: string | null = null

  function noteRefusal(text: string, tries: number): void {
    refusals += 1
    refusedSince ??= performance.now()
    if (tries < fewestTries || performance.now() - refusedSince < patienceMs) return
    const minutes = Math.round(patienceMs / 60_000)
    impatience ??= `The policy has answered nothing but 429 for ${minutes} minutes: ${text.slice(0, longestText)}`
  }

  return {
    name: policy.name,
    get failure() {
      return watched?.failure ?? impatience
    },
    get refusals() {
      return refusals
    },
    async respond(request) {
      for (let tries = 1; ; tries += 1) {
        // Again after each wait: somebody else may have been asked to wait longer.
        while (performance.now() < resumeAt) {
          await wait(resumeAt - performance.now(), request.signal)
        }
        const answer = await policy.respond(request)
        const { status } = answer
        if (status !== 429) refusedSince = undefined
        if (status !== 429 && status !== 503) return answer
        const asked = retryAfterMs(answer.headers)
        if (status === 503 && asked === undefined) return answer
        const pauseMs = Math.min(asked ?? ownPauseMs(firstPauseMs, tries), longestPauseMs)
        // At once: others may be about to ask.
        if (asked !== undefined) resumeAt = Math.max(resumeAt, performance.now() + pauseMs)
        const text = await answer.text()
        if (status === 429) noteRefusal(text, tries)
        const isOver =
          status === 429
            ? impatience !== null || systemicFailure(status, text) !== null
            : tries > mostRetries
        if (isOver) return withoutPause(answer, text)
        onWait?.(pauseMs, status)
        if (asked === undefined) await wait(pauseMs, request.signal)
      }
    },
  }
}

/** Spread, so that calls that were refused together do not come back together. */
function ownPauseMs(firstPauseMs: number, tries: number): number {
  const most = Math.min(firstPauseMs * 2 ** (tries - 1), longestPauseMs)
  return most * (0.5 + Math.random() / 2)
}

function withoutPause({ status, headers }: Response, text: string): Response {
  const left = new Headers(headers)
  left.delete('retry-after')
  left.delete('retry-after-ms')
  return new Response(text, { status, headers: left })
}
