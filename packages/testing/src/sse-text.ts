import type { ScriptedAnswer } from '@osmosis/controller'
import {
  answerChunks,
  answerCompletion,
  answerContext,
  encodeSse,
  type AnswerContext,
} from '@osmosis/controller/answers'
import type { ChatCompletionChunk, ChatToolCallDelta } from '@osmosis/core/policy'

import type { Faults } from './policy-reply.ts'

/**
 * The full text of the event stream a policy server sends for an answer, so that a test can loop
 * over every place to cut it. ASCII answers have one byte per character.
 *
 * `request` is the body that is answered: ids are derived from its messages. Usage is included
 * unless `faults.omit` names it.
 */
export function sseOf(
  answer: ScriptedAnswer,
  faults: Faults = {},
  request: Readonly<Record<string, unknown>> = {},
): string {
  if (faults.raw !== undefined) return faults.raw
  const context = answerContext(request)
  const chunks = faults.oneFatChunk
    ? [fatChunk(answer, context)]
    : answerChunks(answer, context, { includeUsage: true })
  const events = encodeSse(omitParts(chunks, answer, context, faults)).split(/(?<=\n\n)/)
  const sent = withError(events, faults).filter(
    (event) => !(event.startsWith('data: [DONE]') && faults.omit?.includes('done')),
  )
  const text = sent.map((event) => (faults.comments ? `: ping\n\n${event}` : event)).join('')
  // JSON escapes the line breaks of answers, so every one here belongs to the stream.
  return faults.crlf ? text.replaceAll('\n', '\r\n') : text
}

function fatChunk(answer: ScriptedAnswer, context: AnswerContext): ChatCompletionChunk {
  const { choices, usage, ...head } = answerCompletion(answer, context)
  return {
    ...head,
    object: 'chat.completion.chunk',
    choices: choices.map(
      ({ message: { role: _role, tool_calls: toolCalls, ...said }, ...rest }) => ({
        ...rest,
        delta: {
          ...said,
          ...(toolCalls
            ? { tool_calls: toolCalls.map((call, index) => ({ index, ...call })) }
            : {}),
        },
      }),
    ),
    ...(usage ? { usage } : {}),
  }
}

function omitParts(
  chunks: readonly ChatCompletionChunk[],
  answer: ScriptedAnswer,
  context: AnswerContext,
  { omit = [], oneFatChunk = false }: Faults,
): ChatCompletionChunk[] {
  let rest = [...chunks]
  if (omit.includes('role')) rest = rest.filter(({ choices }) => !choices[0]?.delta?.role)
  if (omit.includes('usage')) {
    rest = rest
      .filter(({ choices }) => choices.length > 0)
      .map(({ usage: _usage, ...chunk }) => chunk)
  }
  if (omit.includes('index')) {
    rest = (oneFatChunk ? rest : wholeToolCalls(rest, answer, context)).map(withoutIndex)
  }
  if (omit.includes('toolCallIds')) {
    rest = rest.map((chunk) => withToolCalls(chunk, ({ id: _id, ...call }) => call))
  }
  if (omit.includes('finish')) {
    rest = oneFatChunk
      ? rest.map((chunk) => ({
          ...chunk,
          choices: chunk.choices.map((choice) => ({ ...choice, finish_reason: null })),
        }))
      : rest.filter(({ choices }) => typeof choices[0]?.finish_reason !== 'string')
  }
  return rest
}

// Without an index, a client cannot assign the pieces of several tool calls, so each call comes whole.
function wholeToolCalls(
  chunks: readonly ChatCompletionChunk[],
  answer: ScriptedAnswer,
  context: AnswerContext,
): ChatCompletionChunk[] {
  const calls = answerCompletion(answer, context).choices[0]?.message.tool_calls ?? []
  const [head] = chunks
  const whole = calls.map((call) => ({
    ...head,
    choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: null }],
  }))
  const others = chunks.filter(({ choices }) => !choices[0]?.delta?.tool_calls)
  const finish = others.findIndex(({ choices }) => typeof choices[0]?.finish_reason === 'string')
  return [...others.slice(0, finish), ...whole, ...others.slice(finish)]
}

function withoutIndex(chunk: ChatCompletionChunk): ChatCompletionChunk {
  const bare = withToolCalls(chunk, ({ index: _index, ...call }) => call)
  return { ...bare, choices: bare.choices.map(({ index: _index, ...choice }) => choice) }
}

function withToolCalls(
  chunk: ChatCompletionChunk,
  change: (call: ChatToolCallDelta) => ChatToolCallDelta,
): ChatCompletionChunk {
  const choices = chunk.choices.map((choice) => {
    const calls = choice.delta?.tool_calls?.map(change)
    return calls ? { ...choice, delta: { ...choice.delta, tool_calls: calls } } : choice
  })
  return { ...chunk, choices }
}

function withError(events: readonly string[], faults: Faults): string[] {
  const error = errorText(faults)
  if (error === undefined) return [...events]
  const closing = events.slice(-1)
  const half = Math.ceil((events.length - 1) / 2)
  return [...events.slice(0, half), error, ...closing]
}

function errorText({ errorEvent, errorData }: Faults): string | undefined {
  if (errorEvent !== undefined) {
    return `event: error\ndata: ${JSON.stringify({ error: errorEvent })}\n\n`
  }
  if (errorData === undefined) return undefined
  return `data: ${JSON.stringify({ error: { message: errorData } })}\n\n`
}
