import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { errorMessage } from '@osmosis/core'
import { Hono } from 'hono'

import { sendAnswer } from './answer-delivery.ts'
import { carriesBearer } from './bearer.ts'
import { type PolicyErrorBody, policyErrorBody } from './policy-error.ts'
import type { PolicyRequest, PolicyModel } from './policy-model.ts'
import type { RolloutSessions } from './rollout-sessions.ts'
import { observeUsage } from './usage-observer.ts'

type Refusal = { status: 400 | 401 | 404 | 410; body: PolicyErrorBody }

/**
 * The policy endpoint of every rollout. Refuses, in this order: a wrong bearer (401), an unknown
 * rollout (404) or one that has ended (410), a body that is no JSON object (400).
 */
export function policyRoute(
  sessions: RolloutSessions,
  policy: PolicyModel,
  token: string,
): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.post('/v1/rollouts/:rolloutId/chat/completions', async (c) => {
    const refuse = ({ status, body }: Refusal): Response => c.json(body, status)
    if (!carriesBearer(c.req.header('authorization'), token)) return refuse(wrongKey)
    const rolloutId = c.req.param('rolloutId')
    const session = sessions.find(rolloutId)
    if (session === undefined) return refuse(unknownRollout(rolloutId))
    if (session === 'finished') return refuse(finishedRollout(rolloutId))
    const { outgoing } = c.env
    const disconnected = new AbortController()
    outgoing.once('close', () => disconnected.abort())
    const body = parseObject(await c.req.text())
    if (body === undefined) return refuse(notAnObject)
    // The rollout may have ended while the body came in.
    if (session.signal.aborted) return refuse(finishedRollout(rolloutId))

    const signal = AbortSignal.any([disconnected.signal, session.signal])
    const { authorization: _secret, ...headers } = c.req.header()
    const sampleId = headers['x-sample-id'] ?? ''
    const report = session.usage.beginCall()
    const answer = await ask(policy, { rolloutId, sampleId, body, headers, signal })
    if (session.signal.aborted) return refuse(finishedRollout(rolloutId))
    const observe = observeUsage(answer.headers.get('content-type') ?? '', report)
    await sendAnswer(answer, observe, outgoing, signal)
    return RESPONSE_ALREADY_SENT
  })
  return app
}

async function ask(policy: PolicyModel, call: PolicyRequest): Promise<Response> {
  const { signal } = call
  const aborted = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => aborted.reject(signal.reason), { once: true })
  try {
    // A policy that pays no attention to its signal must not hold the caller.
    return await Promise.race([policy.respond(call), aborted.promise])
  } catch (error) {
    const message = `The policy ${policy.name} failed: ${errorMessage(error)}`
    return Response.json(policyErrorBody(500, 'policy_failed', message), { status: 500 })
  }
}

const wrongKey: Refusal = {
  status: 401,
  body: policyErrorBody(401, 'invalid_api_key', 'The bearer key is missing or wrong.'),
}

const notAnObject: Refusal = {
  status: 400,
  body: policyErrorBody(400, 'invalid_body', 'The request body must be a JSON object.'),
}

function unknownRollout(rolloutId: string): Refusal {
  const message = `There is no rollout ${JSON.stringify(rolloutId)} here.`
  return { status: 404, body: policyErrorBody(404, 'rollout_not_found', message) }
}

function finishedRollout(rolloutId: string): Refusal {
  const message = `The rollout ${JSON.stringify(rolloutId)} has ended; its model calls are over.`
  return { status: 410, body: policyErrorBody(410, 'rollout_ended', message) }
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
