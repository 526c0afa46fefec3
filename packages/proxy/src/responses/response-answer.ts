import { randomUUID } from 'node:crypto'

import type { PolicyAnswerEnd, AnswerSegment, SegmentStep } from '../answer-segments.ts'
import type { DialectAnswer, DialectEvent, DialectFailure, WireObject } from '../dialect.ts'
import type { FunctionNames } from './responses-request.ts'

/** What a response repeats of its request. */
const repeatedFields = {
  instructions: null,
  max_output_tokens: null,
  metadata: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  store: true,
  temperature: null,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  tools: [],
  top_p: null,
  truncation: 'disabled',
}

/** Writes an answer as a response of OpenAI's Responses API. */
export class ResponseAnswer implements DialectAnswer {
  readonly id = newId('resp')
  readonly output: WireObject[] = []
  /** Called when the answer is complete, before its last event. */
  onCompleted: (() => void) | undefined
  readonly #functions: FunctionNames
  #response: WireObject
  #itemId = ''
  #sent = 0

  constructor(request: WireObject, functions: FunctionNames) {
    this.#functions = functions
    const repeated = Object.entries(repeatedFields).map(([name, value]) => [
      name,
      request[name] ?? value,
    ])
    this.#response = {
      id: this.id,
      object: 'response',
      created_at: Math.floor(Date.now() / 1000),
      status: 'in_progress',
      error: null,
      incomplete_details: null,
      model: typeof request['model'] === 'string' ? request['model'] : 'policy',
      output: [],
      usage: null,
      ...(Object.fromEntries(repeated) as WireObject),
    }
  }

  get whole(): WireObject {
    return this.#response
  }

  begin(): DialectEvent[] {
    const response = this.#response
    return [
      this.#event('response.created', { response }),
      this.#event('response.in_progress', { response }),
    ]
  }

  piece(piece: SegmentStep): DialectEvent[] {
    switch (piece.step) {
      case 'open':
        return this.#open(piece.part)
      case 'text':
        return [this.#delta(piece.part, piece.text)]
      case 'close':
        return this.#close(piece.part)
    }
  }

  end({ finishReason, usage }: PolicyAnswerEnd): DialectEvent[] {
    const cutBy = reasonOf(finishReason)
    const status = cutBy === undefined ? 'completed' : 'incomplete'
    this.#response = {
      ...this.#response,
      status,
      incomplete_details: cutBy === undefined ? null : { reason: cutBy },
      output: this.output,
      usage: {
        input_tokens: usage?.prompt_tokens ?? 0,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: usage?.completion_tokens ?? 0,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: usage?.total_tokens ?? 0,
      },
    }
    this.onCompleted?.()
    return [this.#event(`response.${status}`, { response: this.#response })]
  }

  failed({ message, code }: DialectFailure): DialectEvent {
    const error = { code: code ?? 'server_error', message }
    return this.#event('response.failed', {
      response: { ...this.#response, status: 'failed', error, output: this.output },
    })
  }

  #open(part: AnswerSegment): DialectEvent[] {
    this.#itemId = newId(idPrefixes[part.kind])
    const item = this.#item(part, '', 'in_progress')
    const events = [this.#itemEvent('output_item.added', { item })]
    if (part.kind !== 'tool')
      events.push(this.#partEvent('content_part.added', contentPart(part, '')))
    return events
  }

  #delta({ kind }: AnswerSegment, delta: string): DialectEvent {
    if (kind === 'tool')
      return this.#itemEvent('function_call_arguments.delta', this.#in({ delta }))
    const fields = { content_index: 0, delta, ...(kind === 'text' ? { logprobs: [] } : {}) }
    return this.#itemEvent(`${textEvents[kind]}.delta`, this.#in(fields))
  }

  #close(part: AnswerSegment): DialectEvent[] {
    const item = this.#item(part, part.text, 'completed')
    const events: DialectEvent[] = []
    if (part.kind === 'tool') {
      const { name } = item
      const fields = { name, arguments: part.text }
      events.push(this.#itemEvent('function_call_arguments.done', this.#in(fields)))
    } else {
      const said = part.kind === 'refusal' ? { refusal: part.text } : { text: part.text }
      const fields = {
        content_index: 0,
        ...said,
        ...(part.kind === 'text' ? { logprobs: [] } : {}),
      }
      events.push(
        this.#itemEvent(`${textEvents[part.kind]}.done`, this.#in(fields)),
        this.#partEvent('content_part.done', contentPart(part, part.text)),
      )
    }
    events.push(this.#itemEvent('output_item.done', { item }))
    this.output.push(item)
    return events
  }

  #item({ kind, call }: AnswerSegment, text: string, status: string): WireObject {
    const id = this.#itemId
    if (call !== undefined) {
      const named = this.#functions.split(call.function.name)
      return { id, type: 'function_call', status, call_id: call.id, ...named, arguments: text }
    }
    const content = status === 'completed' ? [contentPart({ kind }, text)] : []
    if (kind === 'thinking') return { id, type: 'reasoning', summary: [], content }
    return { id, type: 'message', status, role: 'assistant', content }
  }

  #in(fields: WireObject): WireObject {
    return { item_id: this.#itemId, ...fields }
  }

  #partEvent(type: string, part: WireObject): DialectEvent {
    return this.#itemEvent(type, this.#in({ content_index: 0, part }))
  }

  #itemEvent(type: string, fields: WireObject): DialectEvent {
    return this.#event(`response.${type}`, { output_index: this.output.length, ...fields })
  }

  #event(type: string, fields: WireObject): DialectEvent {
    const event = { type, sequence_number: this.#sent, ...fields }
    this.#sent += 1
    return event
  }
}

const idPrefixes = { thinking: 'rs', text: 'msg', refusal: 'msg', tool: 'fc' } as const

const textEvents = { thinking: 'reasoning_text', text: 'output_text', refusal: 'refusal' } as const

function contentPart({ kind }: Pick<AnswerSegment, 'kind'>, text: string): WireObject {
  if (kind === 'thinking') return { type: 'reasoning_text', text }
  if (kind === 'refusal') return { type: 'refusal', refusal: text }
  return { type: 'output_text', text, annotations: [], logprobs: [] }
}

function reasonOf(finishReason: string | null): string | undefined {
  if (finishReason === 'length') return 'max_output_tokens'
  return finishReason === 'content_filter' ? 'content_filter' : undefined
}

function newId(prefix: string): string {
  return `${prefix}_${randomUUID().replaceAll('-', '')}`
}
