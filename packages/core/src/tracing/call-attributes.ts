import type { MeasuredCall } from '../policy/call-log.ts'
import type {
  AssistantMessage,
  ChatCompletionRequest,
  ChatMessage,
} from '../policy/chat-completion.ts'
import type { Attributes } from './trace-api.ts'

/** A model call that has ended. */
export interface EndedCall {
  readonly call: Pick<
    MeasuredCall,
    'attempts' | 'finishReason' | 'model' | 'timeToFirstChunkMs'
  > & {
    readonly usage: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null
  }
  readonly responseId: string | undefined
  /** Undefined without an answer. */
  readonly message: AssistantMessage | undefined
}

/** Attribute names of request settings. */
const settings = {
  temperature: 'gen_ai.request.temperature',
  top_p: 'gen_ai.request.top_p',
  top_k: 'gen_ai.request.top_k',
  max_tokens: 'gen_ai.request.max_tokens',
  max_completion_tokens: 'gen_ai.request.max_tokens',
  seed: 'gen_ai.request.seed',
  frequency_penalty: 'gen_ai.request.frequency_penalty',
  presence_penalty: 'gen_ai.request.presence_penalty',
} as const

export function requestAttributes(request: ChatCompletionRequest): Attributes {
  const attributes: Attributes = {}
  for (const [key, name] of Object.entries(settings)) {
    const value = request[key]
    if (typeof value === 'number') attributes[name] = value
  }
  if (capturesContent()) attributes['gen_ai.input.messages'] = toText(request.messages.map(toParts))
  return attributes
}

export function answerAttributes({ call, responseId, message }: EndedCall): Attributes {
  const { finishReason, timeToFirstChunkMs, attempts, usage, model } = call
  const content = message !== undefined && capturesContent()
  return {
    'gen_ai.response.model': model ?? undefined,
    'gen_ai.response.id': responseId,
    'gen_ai.response.finish_reasons': finishReason === null ? undefined : [finishReason],
    'gen_ai.response.time_to_first_chunk':
      timeToFirstChunkMs === null ? undefined : timeToFirstChunkMs / 1000,
    'gen_ai.usage.input_tokens': usage?.prompt_tokens,
    'gen_ai.usage.output_tokens': usage?.completion_tokens,
    'http.request.resend_count': attempts > 1 ? attempts - 1 : undefined,
    'gen_ai.output.messages': content
      ? toText([{ ...toParts(message), finish_reason: finishReason ?? 'stop' }])
      : undefined,
  }
}

/** The standard switch for message contents. Default: off. */
function capturesContent(): boolean {
  // oxlint-disable-next-line node/no-process-env
  const value = process.env['OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT'] ?? ''
  return ['true', 'span_only', 'span_and_event'].includes(value.toLowerCase())
}

function toText(messages: unknown): string | undefined {
  try {
    return JSON.stringify(messages)
  } catch {
    return undefined
  }
}

/** A message in the form of the GenAI conventions. */
function toParts(message: ChatMessage): { role: unknown; parts: unknown[] } {
  const { role, content, tool_calls: calls, tool_call_id: id } = message as Record<string, unknown>
  if (role === 'tool')
    return { role, parts: [{ type: 'tool_call_response', id, response: content }] }
  const texts = typeof content === 'string' ? [{ type: 'text', content }] : content
  const toolCalls = (
    Array.isArray(calls) ? (calls as { id?: unknown; function?: object }[]) : []
  ).map((call) => ({ type: 'tool_call', id: call.id, ...call.function }))
  return { role, parts: [...(Array.isArray(texts) ? (texts as unknown[]) : []), ...toolCalls] }
}
