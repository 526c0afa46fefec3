import type { HttpBindings } from '@hono/node-server'
import { errorMessage } from '@osmosis/core'
import { carriesKey } from '@osmosis/core/http'
import {
  loopChatRequestSchema,
  loopCompletedSchema,
  type LoopChatRequestBody,
} from '@osmosis/runtime/wire'
import { Hono } from 'hono'

import { readCallback, readJson, Refusal } from '../http/request-body.ts'
import type { Routes } from '../http/rollout-host.ts'
import {
  askPolicy,
  callSignal,
  passedOnHeaders,
  refuseCall,
  sessionOfCall,
  whileRunning,
  wrongKey,
} from '../policy/model-call.ts'
import { policyErrorBody, type PolicyModel } from '../policy/policy-model.ts'
import { observeUsage, type TokenUsage } from '../policy/usage.ts'
import { systemicFailure } from '../policy/watch-policy.ts'
import { reportedOutcome, type LoopSessions } from './loop-outcome.ts'

/**
 * What a loop asks of its trainer. Both routes refuse, in this order: a wrong key (401), a body that
 * is too large (413), not UTF-8 (422), not JSON (400) or not what the protocol says (422), an
 * unknown rollout (404). A model call is also refused when its rollout has ended (410), and with 424
 * when the policy can answer no call at all: nothing to be asked for again. A result is acknowledged
 * once it is committed; a failed commit is a 500, which servers send again.
 */
export function trainerRoutes(sessions: LoopSessions, policy: PolicyModel, key: string): Routes {
  const app: Routes = new Hono<{ Bindings: HttpBindings }>()

  app.post('/v1/chat/completions', async (c) => {
    if (!carriesKey(c.req.header('authorization'), key)) throw wrongKey()
    const request = await readChatRequest(c.req.raw)
    const { rollout_id: rolloutId, logprobs: _, ...asked } = request
    const session = sessionOfCall(sessions, rolloutId)
    const signal = callSignal(c.env.outgoing, session)
    const { tools, onAnswer } = session.state
    // A loop may be faster than the answer to its init.
    const declared = await whileRunning(session, signal, () => tools.promise)

    const report = session.usage.beginCall()
    const { authorization: _secret, ...headers } = c.req.header()
    const body = { ...asked, ...(declared.length === 0 ? {} : { tools: declared }) }
    const answer = await askPolicy(policy, { rolloutId, sampleId: '', body, headers, signal })
    const reading = (): ReturnType<typeof readAnswer> => readAnswer(answer, report)
    const { status, text, headers: passedOn } = await whileRunning(session, signal, reading)
    const failure = systemicFailure(status, text)
    if (failure !== null) throw new Refusal(424, policyErrorBody(424, 'policy_unusable', failure))
    const refusal = await onAnswer?.({ messages: asked.messages, status, text })
    if (refusal) throw new Refusal(400, { detail: refusal })
    return new Response(text === '' ? null : text, { status, headers: passedOn })
  })

  app.post('/v1/rollout/completed', async (c) => {
    const body = await readCallback(c.req.raw, { key, schema: loopCompletedSchema, notJson: 400 })
    const known = await sessions.conclude(body.rollout_id, { kind: 'completed', body }, (facts) =>
      reportedOutcome(facts, body),
    )
    return known ? c.json({ status: 'ok' }) : c.json({ detail: 'unknown rollout_id' }, 404)
  })
  return app
}

async function readChatRequest(request: Request): Promise<LoopChatRequestBody> {
  const json = await readJson(request, {
    notJson: 400,
    refusal: (status, code, fault) =>
      policyErrorBody(status, code, `The request body is ${fault}.`),
  })
  const parsed = loopChatRequestSchema.safeParse(json)
  if (parsed.success) return parsed.data
  const { path = [], message = '' } = parsed.error.issues[0] ?? {}
  throw refuseCall(422, 'invalid_body', `${['body', ...path.map(String)].join('.')}: ${message}`)
}

const jsonHeaders = { 'content-type': 'application/json' }

/** The whole answer: loops do not ask for streams, and one that broke off is a failed call. */
async function readAnswer(
  answer: Response,
  report: (usage: TokenUsage) => void,
): Promise<{ status: number; text: string; headers: Record<string, string> }> {
  const observe = observeUsage(answer.headers.get('content-type') ?? '', report)
  const decoder = new TextDecoder()
  let text = ''
  try {
    const chunks: AsyncIterable<Uint8Array> = answer.body ?? new Blob([]).stream()
    for await (const chunk of observe(chunks)) text += decoder.decode(chunk, { stream: true })
  } catch (error) {
    const message = `The answer of the policy broke off: ${errorMessage(error)}`
    const body = policyErrorBody(500, 'policy_connection_lost', message)
    return { status: 500, text: JSON.stringify(body), headers: jsonHeaders }
  }
  const headers = passedOnHeaders(answer.headers)
  return { status: answer.status, text: text + decoder.decode(), headers }
}
