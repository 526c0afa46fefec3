import { errorMessage } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import {
  answerChunks,
  answerCompletion,
  answerContext,
  asksForUsage,
  encodeSse,
  type ScriptedAnswer,
} from './scripted-answer.ts'
import { policyErrorBody, type PolicyModel, type PolicyRequest } from './policy-model.ts'

/** What a script sees of a model call. */
export interface ScriptedCall {
  readonly rolloutId: string
  /** Empty when the caller named no sample. */
  readonly sampleId: string
  readonly messages: readonly ChatMessage[]
  /** As the request has them; empty when it has none. */
  readonly tools: readonly unknown[]
  /** How many assistant messages the conversation already holds: 0 for the first answer. */
  readonly turn: number
  /** The whole request body. */
  readonly body: Readonly<Record<string, unknown>>
}

/**
 * A policy written in code, for tests, examples and dry runs. Answers come as server-sent events
 * when the request has `stream: true`, else as one JSON object; ids are derived from the request,
 * so that the same conversation always gives the same bytes. Usage that the script does not state
 * is estimated from the length of the texts, four characters to a token. An exception in `script`
 * is answered with 500 and its message.
 */
export function scriptedPolicy(
  script: (call: ScriptedCall) => ScriptedAnswer | Promise<ScriptedAnswer>,
): PolicyModel {
  return {
    name: 'scripted',
    async respond(call) {
      let answer: ScriptedAnswer
      try {
        answer = await script(toScriptedCall(call))
      } catch (error) {
        const body = policyErrorBody(500, 'script_failed', errorMessage(error))
        return Response.json(body, { status: 500 })
      }
      return encode(answer, call)
    },
  }
}

function encode(answer: ScriptedAnswer, { body, rolloutId, sampleId }: PolicyRequest): Response {
  const context = answerContext(body, { rolloutId, sampleId })
  if (body['stream'] !== true) return Response.json(answerCompletion(answer, context))
  const chunks = answerChunks(answer, context, { includeUsage: asksForUsage(body) })
  return new Response(encodeSse(chunks), { headers: { 'content-type': 'text/event-stream' } })
}

function toScriptedCall({ rolloutId, sampleId, body }: PolicyRequest): ScriptedCall {
  const messages = Array.isArray(body['messages']) ? body['messages'].filter(isMessage) : []
  const tools: unknown[] = Array.isArray(body['tools']) ? body['tools'] : []
  const turn = messages.filter(({ role }) => role === 'assistant').length
  return { rolloutId, sampleId, messages, tools, turn, body }
}

function isMessage(value: unknown): value is ChatMessage {
  return typeof value === 'object' && value !== null && 'role' in value
}
