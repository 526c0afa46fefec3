import { retryAfterMs, wait } from '@osmosis/core/http'

import type { PolicyModel } from './policy-model.ts'

const mostRetries = 3
/** An endpoint may not make everybody wait longer than this at a time. Milliseconds. */
const longestPauseMs = 60_000

/**
 * A policy that does as an overloaded endpoint asks: after a 429 or 503 with `Retry-After` no call is made
 * until then, whoever made the one that was refused, and that one is made again, up to three times. The
 * last refusal is passed on without `Retry-After`, which would make its reader wait on; all other answers
 * are passed on as they are. Whoever made `policy` still closes it.
 */
export function patientPolicy(policy: PolicyModel): PolicyModel {
  let resumeAt = 0
  return {
    name: policy.name,
    async respond(request) {
      for (let retries = 0; ; retries += 1) {
        // Again after each wait: somebody else may have been asked to wait longer.
        while (performance.now() < resumeAt) {
          await wait(resumeAt - performance.now(), request.signal)
        }
        const answer = await policy.respond(request)
        if (answer.status !== 429 && answer.status !== 503) return answer
        const pauseMs = retryAfterMs(answer.headers)
        if (pauseMs === undefined) return answer
        const until = performance.now() + Math.min(pauseMs, longestPauseMs)
        resumeAt = Math.max(resumeAt, until)
        if (retries === mostRetries) return withoutPause(answer)
        await answer.body?.cancel()
      }
    },
  }
}

function withoutPause({ body, status, headers }: Response): Response {
  const left = new Headers(headers)
  left.delete('retry-after')
  left.delete('retry-after-ms')
  return new Response(body, { status, headers: left })
}
