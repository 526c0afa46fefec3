import { isAboutKey, isAway, isTransientStatus, refusalOf, untilAborted } from '@osmosis/core/http'

import { forwardedHeaders } from './model-call.ts'
import type { PolicyModel, PolicyRequest } from './policy-model.ts'

/** A policy that detects failures of all later calls. */
export interface WatchedPolicy extends PolicyModel {
  /** Why later model calls would fail, too; null until that is known. */
  readonly failure: string | null
}

/**
 * Watches the answers of a policy for failures that later calls would have, too: a wrong key, an account without
 * credit, an unknown model, an address where no server listens. A caller with many rollouts can then stop early.
 * A 403 may concern one prompt only, as with moderation, so a test call of 16 tokens decides. The answers are
 * forwarded unchanged. The creator of `policy` closes it.
 */
export function watchPolicy(
  policy: PolicyModel,
  options: {
    /** Advice on a failure with this status, in a sentence; 401 for one about the key with any status. Default: none. */
    readonly advise?: (status: number) => string
    /**
     * Whether the caller waits for a policy that is away, as {@link patientPolicy} does: one that has answered before and
     * cannot be reached is no failure then. Default: false.
     */
    readonly isAwaited?: boolean
  } = {},
): WatchedPolicy {
  let failure: string | null = null
  let hasAnswered = false
  let testing: Promise<boolean> | undefined

  /** Calls that are refused concurrently share one test call. */
  async function refusesAll(request: PolicyRequest): Promise<boolean> {
    testing ??= refusesHarmless(policy, request).finally(() => (testing = undefined))
    return testing
  }

  return {
    name: policy.name,
    get failure() {
      return failure
    },
    async respond(request) {
      const answer = await policy.respond(request)
      const { status } = answer
      if (status < 500) hasAnswered = true
      if (!mayBeSystemic(status) && status !== forbidden) return answer
      const text = await answer.text()
      const mayReturn = options.isAwaited === true && hasAnswered && saysAway(status, text)
      if (mayReturn) return passedOn(answer, text)
      const isForbidden = status === forbidden && failure === null && (await refusesAll(request))
      const found = isForbidden ? refusalText(status, text) : systemicFailure(status, text)
      if (found !== null) {
        const advice = options.advise?.(isAboutKey(refusalOf(status, text)) ? 401 : status)
        failure ??= advice === undefined ? found : `${found}\n${advice}`
      }
      return passedOn(answer, text)
    },
  }
}

function passedOn({ status, headers }: Response, text: string): Response {
  return new Response(text, { status, headers: forwardedHeaders(headers) })
}

/** Wrong key, no credit, unknown address or model. */
const refusals = new Set([401, 402, 404])
const forbidden = 403
/** The code of a 429 with which OpenAI and others report that an account has no credit. */
const spent = 'insufficient_quota'
const maxTextLength = 500

/**
 * Why later model calls would fail as this one did; null for an answer, and for a failure that is transient or
 * concerns this call alone, such as a rate limit.
 */
export function systemicFailure(status: number, text: string): string | null {
  if (refusals.has(status)) return refusalText(status, text)
  if (!mayBeSystemic(status)) return null
  // LiteLLM refuses keys with 400 and 500, too.
  const refusal = refusalOf(status, text)
  if (isAboutKey(refusal)) return refusalText(status, text)
  const { endpointCode: code, endpointMessage: message } = refusal
  if (status === 429) return code === spent ? refusalText(status, text) : null
  // A gateway may answer 502, too: only the code says that no server listens there.
  return code === 'policy_unreachable' ? String(message) : null
}

/**
 * Whether an answer says that the policy is away, as it is while it restarts: its server loads its model, or was not reached, or
 * closed the connection before it answered.
 */
export function saysAway(status: number, text: string): boolean {
  if (status !== 502) return isAway({ status, text })
  const { endpointCode: code } = refusalOf(status, text)
  return code === 'policy_unreachable' || code === 'policy_connection_lost'
}

export function refusalText(status: number, text: string): string {
  return `The policy answered ${status}: ${text.slice(0, maxTextLength)}`
}

function mayBeSystemic(status: number): boolean {
  return refusals.has(status) || [400, 429, 500, 502].includes(status)
}

/** Whether a policy also refuses a harmless call. */
async function refusesHarmless(policy: PolicyModel, { signal }: PolicyRequest): Promise<boolean> {
  const { status = 0 } = (await testCall(policy, signal)) ?? {}
  return status === forbidden || refusals.has(status)
}

/** How long a test call waits for its answer. Milliseconds. */
const answerMs = 30_000

interface TestAnswer {
  readonly status: number
  readonly text: string
}

/** What a policy answers to a harmless call of 16 tokens; undefined when no whole answer came. */
async function testCall(policy: PolicyModel, signal: AbortSignal): Promise<TestAnswer | undefined> {
  const body = { messages: [{ role: 'user', content: 'Say ok.' }], max_tokens: 16, stream: true }
  const identity = { rolloutId: 'check', sampleId: '', headers: {} }
  const limit = AbortSignal.any([signal, AbortSignal.timeout(answerMs)])
  try {
    // A policy may ignore its signal.
    return await untilAborted(limit, async () => {
      const answer = await policy.respond({ ...identity, body, signal: limit })
      return { status: answer.status, text: await answer.text() }
    })
  } catch {
    return undefined
  }
}

/**
 * Whether a policy answers a harmless call of 16 tokens now: with anything but an error of the server (5xx), such as a gateway
 * sends whose model server is down. A refusal (4xx) is an answer. Waits 30 seconds at most.
 */
export async function policyAnswers(policy: PolicyModel, signal: AbortSignal): Promise<boolean> {
  const answer = await testCall(policy, signal)
  if (answer === undefined) return false
  const { status, text } = answer
  if (status >= 200 && status <= 299) return text.includes('"choices"')
  return status === 429 || !isTransientStatus(status)
}
