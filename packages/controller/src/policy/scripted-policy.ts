import { createHash } from 'node:crypto'

import { errorMessage } from '@osmosis/core'
import type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChunk,
  ChatDelta,
  ChatMessage,
  ChatToolCall,
  ChatUsage,
} from '@osmosis/core/policy'

import { policyErrorBody, type PolicyModel, type PolicyRequest } from './policy-model.ts'

/** A model call, as a script receives it. */
export interface ScriptedCall {
  readonly rolloutId: string
  /** Empty when the caller named no sample. */
  readonly sampleId: string
  readonly messages: readonly ChatMessage[]
  /** Empty when the request has none. */
  readonly tools: readonly unknown[]
  /** Number of assistant messages in the conversation: 0 for the first answer. */
  readonly turn: number
  /** The whole request body. */
  readonly body: Readonly<Record<string, unknown>>
}

/**
 * A policy written in code, for tests, examples and dry runs. It answers with server-sent events when the
 * request has `stream: true`, else with one JSON object. Ids are derived from the request, so that the same
 * conversation always gives the same bytes. Missing usage is estimated as four characters per token. An
 * exception in `script` is answered with 500 and its message.
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

/** A tool call of a scripted answer. */
export interface ScriptedToolCall {
  /** Default: derived from the request, the same for the same request. */
  readonly id?: string
  readonly name: string
  /** A string is sent unchanged, valid JSON or not; an object as its JSON text. */
  readonly arguments: string | object
}

/** An answer of a scripted policy: plain text, or all parts of an answer. */
export type ScriptedAnswer =
  | string
  | {
      /** Default: null, as in an answer that only calls tools. */
      readonly content?: string | null
      /** Thinking of the policy; sent as `reasoning_content`. */
      readonly reasoning?: string
      readonly toolCalls?: readonly ScriptedToolCall[]
      /** Default: `tool_calls` when there are any, else `stop`. */
      readonly finishReason?: string
      /** Default: estimated as four characters per token. */
      readonly usage?: { readonly promptTokens: number; readonly completionTokens: number }
      /** Sent as `logprobs.content`. */
      readonly logprobs?: readonly unknown[]
      /** Sent as `token_ids` of the choice, as vLLM does. */
      readonly tokenIds?: readonly number[]
    }

/** What the encoding of an answer takes from its request. */
export interface AnswerContext {
  /** Id of the completion; the ids of tool calls are derived from it. */
  readonly id: string
  readonly model: string
  readonly promptTokens: number
}

const charactersPerToken = 4
const argumentsPerDelta = 8

/** Derives ids from a request: the same request gives the same ids. */
export function answerContext(
  request: Readonly<Record<string, unknown>>,
  scope: { rolloutId?: string; sampleId?: string } = {},
): AnswerContext {
  const messages = JSON.stringify(request['messages'] ?? [])
  const seed = JSON.stringify([scope.rolloutId ?? '', scope.sampleId ?? '', messages])
  const { model } = request
  return {
    id: `chatcmpl-${shortDigest(seed)}`,
    model: typeof model === 'string' ? model : 'scripted',
    promptTokens: estimateTokens(messages),
  }
}

/** The answer as one JSON object. `created` is 0: scripts have no clock. */
export function answerCompletion(answer: ScriptedAnswer, context: AnswerContext): ChatCompletion {
  const parts = readAnswer(answer, context)
  return {
    id: context.id,
    object: 'chat.completion',
    created: 0,
    model: context.model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: parts.content,
          ...(parts.reasoning === undefined ? {} : { reasoning_content: parts.reasoning }),
          ...(parts.toolCalls.length === 0 ? {} : { tool_calls: parts.toolCalls }),
        } satisfies AssistantMessage,
        finish_reason: parts.finishReason,
        logprobs: parts.tokens.logprobs ?? null,
        ...(parts.tokens.token_ids === undefined ? {} : { token_ids: parts.tokens.token_ids }),
      },
    ],
    usage: parts.usage,
  }
}

/**
 * The answer as the chunks of a stream: role, reasoning, content word by word, each tool call with
 * its arguments in pieces, the finish reason (with logprobs and token ids), and the usage when
 * `includeUsage` is set.
 */
export function answerChunks(
  answer: ScriptedAnswer,
  context: AnswerContext,
  options: { includeUsage: boolean },
): ChatCompletionChunk[] {
  const parts = readAnswer(answer, context)
  const head = { id: context.id, object: 'chat.completion.chunk', created: 0, model: context.model }
  const chunk = (delta: ChatDelta): ChatCompletionChunk => ({
    ...head,
    choices: [{ index: 0, delta, finish_reason: null }],
  })
  const finish = { index: 0, delta: {}, finish_reason: parts.finishReason, ...parts.tokens }
  return [
    chunk({ role: 'assistant', content: parts.content === null ? null : '' }),
    ...words(parts.reasoning ?? '').map((text) => chunk({ reasoning_content: text })),
    ...words(parts.content ?? '').map((text) => chunk({ content: text })),
    ...parts.toolCalls.flatMap(toolCallDeltas).map(chunk),
    { ...head, choices: [finish] },
    ...(options.includeUsage ? [{ ...head, choices: [], usage: parts.usage }] : []),
  ]
}

/** Whether a streaming request wants its last chunk to carry the usage. */
export function asksForUsage(body: Readonly<Record<string, unknown>>): boolean {
  const options = body['stream_options']
  return (
    typeof options === 'object' &&
    options !== null &&
    'include_usage' in options &&
    options.include_usage === true
  )
}

/** The text of a server-sent event stream with one event per chunk, closed by `[DONE]`. */
export function encodeSse(chunks: readonly ChatCompletionChunk[]): string {
  return `${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`
}

interface AnswerParts {
  readonly content: string | null
  readonly reasoning: string | undefined
  readonly toolCalls: ChatToolCall[]
  readonly finishReason: string
  readonly usage: ChatUsage
  /** Only those that were given. */
  readonly tokens: { logprobs?: { content: unknown[] }; token_ids?: number[] }
}

function readAnswer(answer: ScriptedAnswer, context: AnswerContext): AnswerParts {
  const given = typeof answer === 'string' ? { content: answer } : answer
  const { content = null, reasoning, logprobs, tokenIds } = given
  const toolCalls = (given.toolCalls ?? []).map((call, index): ChatToolCall => {
    const id = call.id ?? `call_${shortDigest(`${context.id}/${index}`)}`
    const { name, arguments: args } = call
    const text = typeof args === 'string' ? args : JSON.stringify(args)
    return { id, type: 'function', function: { name, arguments: text } }
  })
  const texts = [content, reasoning, ...toolCalls.map((call) => call.function.arguments)]
  const prompt = given.usage?.promptTokens ?? context.promptTokens
  const completion = given.usage?.completionTokens ?? estimateTokens(texts.join(''))
  return {
    content,
    reasoning,
    toolCalls,
    finishReason: given.finishReason ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop'),
    usage: {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
    },
    tokens: {
      ...(logprobs === undefined ? {} : { logprobs: { content: [...logprobs] } }),
      ...(tokenIds === undefined ? {} : { token_ids: [...tokenIds] }),
    },
  }
}

function toolCallDeltas(call: ChatToolCall, index: number): ChatDelta[] {
  const { id, type, function: called } = call
  // By code point: half a surrogate pair does not survive the way over UTF-8.
  const inPieces = called.arguments.match(new RegExp(`[^]{1,${argumentsPerDelta}}`, 'gu')) ?? []
  return [
    { tool_calls: [{ index, id, type, function: { name: called.name, arguments: '' } }] },
    ...inPieces.map((text) => ({
      tool_calls: [{ index, function: { arguments: text } }],
    })),
  ]
}

function words(text: string): string[] {
  return text.match(/\S+\s*|\s+/g) ?? []
}

function estimateTokens(text: string): number {
  return Math.ceil(text.length / charactersPerToken)
}

function shortDigest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 24)
}
