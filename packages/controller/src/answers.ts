// Answers of policies of this process as the bytes that go over the wire.
import type { ChatCompletion, ChatCompletionChunk, ChatDelta } from '@osmosis/core/policy'

import { asksForUsage, encodeSse } from './policy/scripted-policy.ts'

export { policyErrorBody, type PolicyErrorBody } from './policy/policy-model.ts'
export {
  answerChunks,
  answerCompletion,
  answerContext,
  asksForUsage,
  encodeSse,
  type AnswerContext,
} from './policy/scripted-policy.ts'

/** A whole answer as the request wants it: one JSON object, or a stream when it has `stream: true`. */
export function answerOf(
  completion: ChatCompletion,
  body: Readonly<Record<string, unknown>>,
): Response {
  if (body['stream'] !== true) return Response.json(completion)
  const text = encodeSse(chunksOf(completion, asksForUsage(body)))
  return new Response(text, { headers: { 'content-type': 'text/event-stream' } })
}

/** As vLLM streams: the ids of the prompt come first, then a chunk for each token with its id and its logprob. */
function chunksOf(completion: ChatCompletion, withUsage: boolean): ChatCompletionChunk[] {
  const { id, created, model, usage, prompt_token_ids: promptIds } = completion
  const head = { id, object: 'chat.completion.chunk', created, model }
  const [choice] = completion.choices
  const { content, tool_calls: calls } = choice?.message ?? {}
  const tokens = choice?.token_ids ?? []
  const letters = Array.from(content ?? '')
  const chunk = (delta: ChatDelta, more: object = {}): ChatCompletionChunk => ({
    ...head,
    choices: [{ index: 0, delta, finish_reason: null, ...more }],
  })

  const said = tokens.map((token, at) => {
    const piece = letters.slice(share(letters, at, tokens), share(letters, at + 1, tokens)).join('')
    const entry = choice?.logprobs?.content?.[at]
    const more = { token_ids: [token], ...(entry ? { logprobs: { content: [entry] } } : {}) }
    return chunk(piece === '' ? {} : { content: piece }, more)
  })
  return [
    {
      ...chunk({ role: 'assistant', content: content === null ? null : '' }),
      ...(promptIds ? { prompt_token_ids: promptIds } : {}),
    },
    ...said,
    ...(calls ?? []).map((call, index) => chunk({ tool_calls: [{ index, ...call }] })),
    chunk({}, { finish_reason: choice?.finish_reason ?? 'stop' }),
    ...(withUsage && usage ? [{ ...head, choices: [], usage }] : []),
  ]
}

function share(letters: readonly string[], at: number, tokens: readonly number[]): number {
  return Math.round((letters.length * at) / tokens.length)
}
