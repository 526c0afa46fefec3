import { randomUUID } from 'node:crypto'

import { argumentsObject, nameForAgent } from '@osmosis/core/policy'

import type { PolicyAnswerEnd, AnswerSegment, SegmentStep } from '../answer-segments.ts'
import {
  type Dialect,
  type DialectAnswer,
  type DialectEvent,
  type DialectExchange,
  type DialectFailure,
  eventText,
  type WireObject,
} from '../dialect.ts'
import { fromMessagesRequest } from './messages-request.ts'
import { toClientId } from './tool-ids.ts'

/** Anthropic's Messages API. Source: https://docs.anthropic.com/en/api/messages */
export const messagesDialect: Dialect = {
  open(body: WireObject): DialectExchange {
    const leftOut = new Set<string>()
    const chat = fromMessagesRequest(body, leftOut)
    return { chat, leftOut, answer: new MessageAnswer(body['model']) }
  },
  error: anthropicError,
  ping: eventText({ type: 'ping' }),
}

/** An estimate: only the policy can count its tokens, and a count must not be a call of it. */
export function estimatedTokens(body: WireObject): WireObject {
  const { messages, system, tools } = body
  const { length } = JSON.stringify({ messages, system, tools })
  return { input_tokens: Math.ceil(length / 4) }
}

const errorTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  405: 'invalid_request_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
}

/** The form of Anthropic's errors, with the code of the policy, by which agents know what to do. */
export function anthropicError({
  status,
  message,
  type = '',
  code,
  field,
}: DialectFailure): WireObject & { readonly type: string } {
  const isKnown = Object.values(errorTypes).includes(type)
  const known = isKnown ? type : (errorTypes[status] ?? 'api_error')
  return {
    type: 'error',
    error: { type: known, message, ...(code && field === undefined ? { code } : {}) },
  }
}

/** Writes an answer as a message of the API. */
class MessageAnswer implements DialectAnswer {
  readonly #content: WireObject[] = []
  #message: WireObject

  constructor(model: unknown) {
    this.#message = {
      id: `msg_${randomUUID().replaceAll('-', '')}`,
      type: 'message',
      role: 'assistant',
      model: typeof model === 'string' ? model : 'policy',
      content: this.#content,
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 0, output_tokens: 0 },
    }
  }

  get whole(): WireObject {
    return this.#message
  }

  begin(): DialectEvent[] {
    return [{ type: 'message_start', message: { ...this.#message, content: [] } }]
  }

  piece(piece: SegmentStep): DialectEvent[] {
    const { step, part } = piece
    const index = this.#content.length
    // Whole, because the name of a call depends on whether its arguments are an object.
    if (part.kind === 'tool') return step === 'close' ? this.#toolUse(part, index) : []
    switch (step) {
      case 'open':
        return [{ type: 'content_block_start', index, content_block: emptyBlock(part) }]
      case 'text':
        return [{ type: 'content_block_delta', index, delta: deltaOf(part, piece.text) }]
      case 'close':
        this.#content.push(blockOf(part))
        return [{ type: 'content_block_stop', index }]
    }
  }

  #toolUse(part: AnswerSegment, index: number): DialectEvent[] {
    const block = blockOf(part)
    this.#content.push(block)
    const isObject = argumentsObject(part.text) !== undefined
    return [
      { type: 'content_block_start', index, content_block: { ...block, input: {} } },
      // The policy's bytes.
      {
        type: 'content_block_delta',
        index,
        delta: { type: 'input_json_delta', partial_json: isObject ? part.text : '{}' },
      },
      { type: 'content_block_stop', index },
    ]
  }

  end(end: PolicyAnswerEnd): DialectEvent[] {
    const reason = this.#stopReason(end)
    const delta = {
      stop_reason: reason,
      stop_sequence: reason === 'stop_sequence' ? end.stopSequence : null,
    }
    const usage = {
      input_tokens: end.usage?.prompt_tokens ?? 0,
      output_tokens: end.usage?.completion_tokens ?? 0,
    }
    this.#message = { ...this.#message, ...delta, usage }
    return [{ type: 'message_delta', delta, usage }, { type: 'message_stop' }]
  }

  readonly failed = anthropicError

  #stopReason({ finishReason, stopSequence, refused }: PolicyAnswerEnd): string {
    if (refused || finishReason === 'content_filter') return 'refusal'
    if (finishReason === 'length') return 'max_tokens'
    if (this.#content.some(({ type }) => type === 'tool_use')) return 'tool_use'
    return stopSequence === null ? 'end_turn' : 'stop_sequence'
  }
}

function emptyBlock({ kind, call }: AnswerSegment): WireObject {
  if (kind === 'thinking') return { type: 'thinking', thinking: '', signature: '' }
  if (call === undefined) return { type: 'text', text: '' }
  // The API has only objects. Malformed arguments are recorded as the policy wrote them, and go back to it as {}.
  const { name, arguments: written } = call.function
  return {
    type: 'tool_use',
    id: toClientId(call.id),
    name: nameForAgent(name, written),
    input: argumentsObject(written) ?? {},
  }
}

function deltaOf({ kind }: AnswerSegment, text: string): WireObject {
  if (kind === 'thinking') return { type: 'thinking_delta', thinking: text }
  return { type: 'text_delta', text }
}

function blockOf(part: AnswerSegment): WireObject {
  const block = emptyBlock(part)
  if (part.kind === 'tool') return block
  return { ...block, [part.kind === 'thinking' ? 'thinking' : 'text']: part.text }
}
