import { passedOnHeaders } from './model-call.ts'
import type { PolicyModel } from './policy-model.ts'

/** A policy that remembers whether it can answer at all. */
export interface WatchedPolicy extends PolicyModel {
  /** Why no later model call can be answered either; null as long as that is not known. */
  readonly failure: string | null
}

/**
 * Watches the answers of a policy for a wrong key, an unknown model and an address where nothing listens,
 * so that whoever runs many rollouts can stop early. The answers themselves are passed on as they
 * are. Whoever made `policy` still closes it.
 */
export function watchPolicy(
  policy: PolicyModel,
  options: {
    /** What to do about a failure with this status, in a sentence. Default: nothing is advised. */
    readonly advise?: (status: number) => string
  } = {},
): WatchedPolicy {
  let failure: string | null = null
  return {
    name: policy.name,
    get failure() {
      return failure
    },
    async respond(request) {
      const answer = await policy.respond(request)
      if (!mayBeSystemic(answer.status)) return answer
      const text = await answer.text()
      const found = systemicFailure(answer.status, text)
      if (found !== null) {
        const advice = options.advise?.(answer.status)
        failure ??= advice === undefined ? found : `${found}\n${advice}`
      }
      return new Response(text, {
        status: answer.status,
        headers: passedOnHeaders(answer.headers),
      })
    },
  }
}

/** Wrong key, no right to the model, unknown address or model. */
const refusals = new Set([401, 403, 404])
const longestText = 500

/**
 * Why no later model call could be answered either, when that is what an answer says; null for an
 * answer, and for trouble that may pass or belong to this call alone, such as a rate limit.
 */
export function systemicFailure(status: number, text: string): string | null {
  if (refusals.has(status)) return `The policy answered ${status}: ${text.slice(0, longestText)}`
  if (!mayBeSystemic(status)) return null
  // A gateway of the endpoint answers 502 as well: only the code says that nothing listens there.
  const { code, message } = errorIn(text)
  return code === 'policy_unreachable' ? String(message) : null
}

function mayBeSystemic(status: number): boolean {
  return refusals.has(status) || status === 502
}

function errorIn(text: string): { code?: unknown; message?: unknown } {
  try {
    const body = JSON.parse(text) as { error?: { code?: unknown; message?: unknown } } | null
    return body?.error ?? {}
  } catch {
    return {}
  }
}
