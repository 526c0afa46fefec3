import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { carriesKey, isJsonObject } from '@osmosis/core/http'
import { Hono } from 'hono'

import { readJson } from '../http/request-body.ts'
import type { Routes } from '../http/rollout-host.ts'
import {
  assertRunning,
  callPolicy,
  callSignal,
  forwardedHeaders,
  refuseCall,
  sessionOfCall,
  wrongKey,
} from '../policy/model-call.ts'
import { policyErrorBody, type PolicyModel } from '../policy/policy-model.ts'
import { observeUsage } from '../policy/usage.ts'
import type { WorkflowSessions } from './rollout-outcome.ts'

type Bytes = AsyncIterable<Uint8Array>

/**
 * The policy endpoint of every rollout. Refuses, in this order: a wrong bearer (401), an unknown rollout (404)
 * or one that has ended (410), a body that is too large (413), not UTF-8 (422) or not a JSON object (400).
 */
export function policyRoute(
  sessions: WorkflowSessions,
  policy: PolicyModel,
  token: string,
): Routes {
  const app: Routes = new Hono<{ Bindings: HttpBindings }>()
  app.post('/v1/rollouts/:rolloutId/chat/completions', async (c) => {
    if (!carriesKey(c.req.header('authorization'), token)) throw wrongKey()
    const rolloutId = c.req.param('rolloutId')
    const session = sessionOfCall(sessions, rolloutId)
    const { outgoing } = c.env
    const signal = callSignal(outgoing, session)
    const body = await readObject(c.req.raw)
    // The rollout may have ended while the body arrived.
    assertRunning(session)

    const { authorization: _secret, ...headers } = c.req.header()
    const sampleId = headers['x-sample-id'] ?? ''
    const report = session.usage.beginCall()
    const answer = await callPolicy(policy, { rolloutId, sampleId, body, headers, signal })
    assertRunning(session)
    const observe = observeUsage(answer.headers.get('content-type') ?? '', report)
    await sendAnswer(answer, observe, outgoing, signal)
    return RESPONSE_ALREADY_SENT
  })
  return app
}

async function readObject(request: Request): Promise<Record<string, unknown>> {
  const notAnObject = 'The request body must be a JSON object.'
  const value = await readJson(request, {
    notJson: 400,
    refusal: (status, code, fault) =>
      status === 400
        ? policyErrorBody(400, 'invalid_body', notAnObject)
        : policyErrorBody(status, code, `The request body is ${fault}.`),
  })
  if (isJsonObject(value)) return value
  throw refuseCall(400, 'invalid_body', notAnObject)
}

/**
 * Writes a policy's answer to the caller as it arrives, byte for byte, through `observe`. When the answer breaks
 * off, the caller's connection is closed, so that an incomplete answer does not look complete.
 */
async function sendAnswer(
  answer: Response,
  observe: (chunks: Bytes) => Bytes,
  outgoing: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  outgoing.writeHead(answer.status, forwardedHeaders(answer.headers))
  // The first token may come much later than the status.
  outgoing.flushHeaders()
  try {
    const bytes = answer.body === null ? Readable.from([]) : Readable.fromWeb(answer.body)
    await pipeline(bytes, observe, outgoing, { signal })
  } catch {
    // The pipeline has closed the connections to the policy and to the caller.
  }
}
