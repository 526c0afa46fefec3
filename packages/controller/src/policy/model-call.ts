import type { ServerResponse } from 'node:http'

import { errorMessage } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'

import { Refusal } from '../http/request-body.ts'
import type { RolloutSession } from '../session/rollout-session.ts'
import type { RolloutSessions } from '../session/rollout-sessions.ts'
import { policyErrorBody, type PolicyModel, type PolicyRequest } from './policy-model.ts'

/** A model call that is not put to the policy. */
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
    const message = `There is no rollout ${JSON.stringify(rolloutId)} here.`
    throw refuseCall(404, 'rollout_not_found', message)
  }
  if (session === 'finished') throw rolloutEnded(rolloutId)
  return session
}

/** Any session, whatever its outcome. */
type CallingSession = Pick<RolloutSession<unknown, unknown>, 'rolloutId' | 'signal'>

/** @throws Refusal 410 when the rollout has ended meanwhile */
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

/** Work that is given up, with a 410, when the rollout ends. */
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

/** Puts a call to the policy; what that throws becomes an answer with status 500. */
export async function askPolicy(policy: PolicyModel, request: PolicyRequest): Promise<Response> {
  try {
    // A policy that pays no attention to its signal must not hold the caller.
    return await untilAborted(request.signal, () => policy.respond(request))
  } catch (error) {
    const message = `The policy ${policy.name} failed: ${errorMessage(error)}`
    return Response.json(policyErrorBody(500, 'policy_failed', message), { status: 500 })
  }
}

/** Of an answer; the rest describes the policy's own connection. */
export function passedOnHeaders(headers: Headers): Record<string, string> {
  // Not the encoding: `fetch` has already undone it.
  const kept = ['content-type', 'retry-after', 'retry-after-ms']
  return Object.fromEntries([...headers].filter(([name]) => kept.includes(name)))
}

function rolloutEnded(rolloutId: string): Refusal {
  const message = `The rollout ${JSON.stringify(rolloutId)} has ended; its model calls are over.`
  return refuseCall(410, 'rollout_ended', message)
}
