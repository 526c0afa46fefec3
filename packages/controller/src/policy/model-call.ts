import type { ServerResponse } from 'node:http'

import { errorMessage } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'

import { Refusal } from '../http/request-body.ts'
import type { RolloutSession, RolloutSessions } from '../session/rollout-sessions.ts'
import { policyErrorBody, type PolicyModel, type PolicyRequest } from './policy-model.ts'

/** The refusal of a model call. */
export function refuseCall(status: Refusal['status'], code: string, message: string): Refusal {
  return new Refusal(status, policyErrorBody(status, code, message))
}

/** The refusal of a call without the right key. */
export function wrongKey(): Refusal {
  return refuseCall(401, 'invalid_api_key', 'The bearer key is missing or wrong.')
}

/**
 * The session that a model call belongs to.
 *
 * @throws Refusal 404 for an unknown rollout, 410 for one that has ended
 */
export function sessionOfCall<Outcome, State>(
  sessions: RolloutSessions<Outcome, State>,
  rolloutId: string,
): RolloutSession<Outcome, State> {
  const session = sessions.find(rolloutId)
  if (session === undefined) {
    const message = `The rollout ${JSON.stringify(rolloutId)} is unknown.`
    throw refuseCall(404, 'rollout_not_found', message)
  }
  if (session === 'finished') throw rolloutEnded(rolloutId)
  return session
}

/** A session with any outcome. */
type CallingSession = Pick<RolloutSession<unknown, unknown>, 'rolloutId' | 'signal'>

/** @throws Refusal 410 when the rollout has ended */
export function assertRunning(session: CallingSession): void {
  if (session.signal.aborted) throw rolloutEnded(session.rolloutId)
}

/** Aborts when the caller disconnects or the rollout ends. */
export function callSignal(
  outgoing: Pick<ServerResponse, 'once'>,
  session: CallingSession,
): AbortSignal {
  const disconnected = new AbortController()
  outgoing.once('close', () => disconnected.abort())
  return AbortSignal.any([disconnected.signal, session.signal])
}

/** Runs work that fails with a 410 when the rollout ends. */
export async function whileRunning<T>(
  session: CallingSession,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  try {
    const result = await untilAborted(signal, work)
    assertRunning(session)
    return result
  } catch (error) {
    assertRunning(session)
    throw error
  }
}

/** Calls the policy. Its errors become answers with status 500. */
export async function callPolicy(policy: PolicyModel, request: PolicyRequest): Promise<Response> {
  try {
    // A policy may ignore its signal.
    return await untilAborted(request.signal, () => policy.respond(request))
  } catch (error) {
    const message = `The policy ${policy.name} failed: ${errorMessage(error)}`
    return Response.json(policyErrorBody(500, 'policy_failed', message), { status: 500 })
  }
}

/** The headers of an answer to forward. The others describe the policy's own connection. */
export function forwardedHeaders(headers: Headers): Record<string, string> {
  // Not the encoding, which `fetch` has decoded.
  const forwarded = ['content-type', 'retry-after', 'retry-after-ms']
  return Object.fromEntries([...headers].filter(([name]) => forwarded.includes(name)))
}

function rolloutEnded(rolloutId: string): Refusal {
  const message = `The rollout ${JSON.stringify(rolloutId)} has ended: its model calls are refused.`
  return refuseCall(410, 'rollout_ended', message)
}
