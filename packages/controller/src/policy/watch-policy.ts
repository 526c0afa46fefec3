import { passedOnHeaders } from './model-call.ts'
import type { PolicyModel, PolicyRequest } from './policy-model.ts'

/** A policy that remembers whether it can answer at all. */
export interface WatchedPolicy extends PolicyModel {
  /** Why no later model call can be answered either; null as long as that is not known. */
  readonly failure: string | null
}

/**
 * Watches the answers of a policy for what no later call can change: a wrong key, an account with nothing
 * left to spend, an unknown model, an address where nothing listens. So whoever runs many rollouts can
 * stop early. A 403 may be about one prompt, as that of a moderation is: whether it is decides a call of
 * 16 tokens, which is made then and answered or refused as well. The answers themselves are passed on as
 * they are. Whoever made `policy` still closes it.
 */
export function watchPolicy(
  policy: PolicyModel,
  options: {
    /** What to do about a failure with this status, in a sentence. Default: nothing is advised. */
    readonly advise?: (status: number) => string
  } = {},
): WatchedPolicy {
  let failure: string | null = null
  let asking: Promise<boolean> | undefined

  /** Calls that are refused concurrently share one answer. */
  async function refusesAll(request: PolicyRequest): Promise<boolean> {
    asking ??= refusesHarmless(policy, request).finally(() => (asking = undefined))
    return asking
  }

  return {
    name: policy.name,
    get failure() {
      return failure
    },
    async respond(request) {
      const answer = await policy.respond(request)
      const { status } = answer
      if (!mayBeSystemic(status) && status !== forbidden) return answer
      const text = await answer.text()
      const isForbidden = status === forbidden && failure === null && (await refusesAll(request))
      const found = isForbidden ? refusalText(status, text) : systemicFailure(status, text)
      if (found !== null) {
        const advice = options.advise?.(status)
        failure ??= advice === undefined ? found : `${found}\n${advice}`
      }
      return new Response(text, { status, headers: passedOnHeaders(answer.headers) })
    },
  }
}

/** Wrong key, nothing left to spend, unknown address or model. */
const refusals = new Set([401, 402, 404])
const forbidden = 403
/** Where OpenAI and others say that an account has nothing left to spend: with 429. */
const spent = 'insufficient_quota'
const longestText = 500

/**
 * Why no later model call could be answered either, when that is what an answer says; null for an
 * answer, and for trouble that may pass or belong to this call alone, such as a rate limit.
 */
export function systemicFailure(status: number, text: string): string | null {
  if (refusals.has(status)) return refusalText(status, text)
  if (!mayBeSystemic(status)) return null
  const { code, message } = errorIn(text)
  if (status === 429) return code === spent ? refusalText(status, text) : null
  // A gateway of the endpoint answers 502 as well: only the code says that nothing listens there.
  return code === 'policy_unreachable' ? String(message) : null
}

function refusalText(status: number, text: string): string {
  return `The policy answered ${status}: ${text.slice(0, longestText)}`
}

function mayBeSystemic(status: number): boolean {
  return refusals.has(status) || status === 429 || status === 502
}

/** Whether a policy refuses a call that nobody can object to as well. */
async function refusesHarmless(policy: PolicyModel, { signal }: PolicyRequest): Promise<boolean> {
  const body = { messages: [{ role: 'user', content: 'Say ok.' }], max_tokens: 16, stream: true }
  try {
    const answer = await policy.respond({
      rolloutId: 'check',
      sampleId: '',
      body,
      headers: {},
      signal,
    })
    await answer.body?.cancel()
    return answer.status === forbidden || refusals.has(answer.status)
  } catch {
    return false
  }
}

function errorIn(text: string): { code?: unknown; message?: unknown } {
  try {
    const body = JSON.parse(text) as { error?: { code?: unknown; message?: unknown } } | null
    return body?.error ?? {}
  } catch {
    return {}
  }
}
