import type { ServerResponse } from 'node:http'

import { HttpPeer, type PeerRequest } from './http-peer.ts'

type Event = Readonly<Record<string, unknown>> & { readonly type?: string }
/** The events of a stream, or an error status with its body. */
export type ProviderAnswer =
  | readonly Event[]
  | { readonly status: number; readonly body: unknown; readonly headers?: Record<string, string> }

/** Acts as the HTTP API of a provider, which gives the queued answers in order. */
export class ProviderStandIn extends HttpPeer {
  readonly requests: PeerRequest[] = []
  readonly answers: ProviderAnswer[] = []

  protected receive(request: PeerRequest, response: ServerResponse): void {
    this.requests.push(request)
    const answer = this.answers.shift()
    if (answer === undefined) throw new Error('nothing to answer')
    if ('status' in answer) {
      response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers })
      response.end(JSON.stringify(answer.body))
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const event of answer) {
      const name = event.type === undefined ? '' : `event: ${event.type}\n`
      response.write(`${name}data: ${JSON.stringify(event)}\n\n`)
    }
    response.end()
  }
}

const called = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'add' }
const text = { type: 'message', id: 'msg_1', role: 'assistant' }
const response = (more: object = {}): object => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  model: 'gpt-x',
  output: [],
  ...more,
})

/** A stream of OpenAI's Responses API: thinking, then either a text or a call of `add`. */
export function openaiEvents(said: { text?: string; arguments?: string }): Event[] {
  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'sealed' }
  const args = said.arguments ?? ''
  const item = said.text === undefined ? called : text
  const done =
    said.text === undefined
      ? { ...called, arguments: args, status: 'completed' }
      : {
          ...text,
          status: 'completed',
          content: [{ type: 'output_text', text: said.text, annotations: [] }],
        }
  const half = Math.ceil(args.length / 2)
  return [
    { type: 'response.created', response: response({ status: 'in_progress' }) },
    { type: 'response.output_item.added', output_index: 0, item: reasoning },
    {
      type: 'response.reasoning_summary_part.added',
      item_id: 'rs_1',
      output_index: 0,
      summary_index: 0,
      part: { type: 'summary_text', text: '' },
    },
    {
      type: 'response.reasoning_summary_text.delta',
      item_id: 'rs_1',
      output_index: 0,
      summary_index: 0,
      delta: 'Let me add.',
    },
    { type: 'response.output_item.done', output_index: 0, item: reasoning },
    {
      type: 'response.output_item.added',
      output_index: 1,
      item: { ...item, arguments: '', content: [] },
    },
    ...(said.text === undefined
      ? [args.slice(0, half), args.slice(half)].map((delta) => ({
          type: 'response.function_call_arguments.delta',
          item_id: 'fc_1',
          output_index: 1,
          delta,
        }))
      : said.text.split(/(?= )/).map((delta) => ({
          type: 'response.output_text.delta',
          item_id: 'msg_1',
          output_index: 1,
          content_index: 0,
          delta,
        }))),
    { type: 'response.output_item.done', output_index: 1, item: done },
    {
      type: 'response.completed',
      response: response({
        status: 'completed',
        usage: {
          input_tokens: 20,
          input_tokens_details: { cached_tokens: 4 },
          output_tokens: 9,
          output_tokens_details: { reasoning_tokens: 3 },
          total_tokens: 29,
        },
      }),
    },
  ]
}

/** A stream of Anthropic's Messages API: signed thinking, a text, and perhaps a call of `add`. */
export function anthropicEvents(said: {
  text: string
  arguments?: string
  stop?: string
}): Event[] {
  return [
    {
      type: 'message_start',
      message: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'claude-x',
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 12, cache_read_input_tokens: 8, output_tokens: 1 },
      },
    },
    ...anthropicBlock(
      0,
      { type: 'thinking', thinking: '', signature: '' },
      { type: 'thinking_delta', thinking: 'Hmm, ' },
      { type: 'thinking_delta', thinking: 'sums.' },
      { type: 'signature_delta', signature: 'signed' },
    ),
    ...anthropicBlock(1, { type: 'text', text: '' }, { type: 'text_delta', text: said.text }),
    ...(said.arguments === undefined
      ? []
      : anthropicBlock(
          2,
          { type: 'tool_use', id: 'toolu_1', name: 'add', input: {} },
          { type: 'input_json_delta', partial_json: said.arguments.slice(0, 4) },
          { type: 'input_json_delta', partial_json: said.arguments.slice(4) },
        )),
    {
      type: 'message_delta',
      delta: {
        stop_reason: said.stop ?? (said.arguments === undefined ? 'end_turn' : 'tool_use'),
        stop_sequence: null,
      },
      usage: { output_tokens: 7 },
    },
    { type: 'message_stop' },
  ]
}

/** A stream of Google's Gemini API: a thought, a text, and perhaps a signed call of `add`. */
export function googleEvents(said: { text: string; args?: object; finish?: string }): Event[] {
  const functionCall = { name: 'add', args: said.args }
  return [
    googleChunk([{ text: 'Let me add.', thought: true }]),
    googleChunk([{ text: said.text }]),
    ...(said.args === undefined
      ? []
      : [googleChunk([{ functionCall, thoughtSignature: 'signed' }])]),
    googleChunk([], { finishReason: said.finish ?? 'STOP' }),
  ]
}

function anthropicBlock(index: number, content_block: object, ...deltas: object[]): Event[] {
  return [
    { type: 'content_block_start', index, content_block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]
}

function googleChunk(content: object[], more: object = {}): Event {
  return {
    candidates: [{ index: 0, content: { role: 'model', parts: content }, ...more }],
    usageMetadata: {
      promptTokenCount: 20,
      cachedContentTokenCount: 4,
      candidatesTokenCount: 6,
      thoughtsTokenCount: 3,
      totalTokenCount: 29,
    },
  }
}
