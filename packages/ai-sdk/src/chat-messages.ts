import { isDeepStrictEqual } from 'node:util'

import { OsmosisError, type PromptMessage } from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'
import type { ChatMessage, ChatContentPart, ChatToolCall } from '@osmosis/core/policy'
import type { ModelMessage, SystemModelMessage, ToolModelMessage } from 'ai'

type AssistantParts = Exclude<Extract<ModelMessage, { role: 'assistant' }>['content'], string>

/** A prompt as `generateText` and `streamText` take it. */
export interface ModelPrompt {
  /** The system messages at the start; the text alone when there is only one. */
  instructions?: string | SystemModelMessage[]
  messages: ModelMessage[]
  /** There are system messages further down. */
  allowSystemInMessages?: true
}

/**
 * A prompt in chat completions form as arguments of `generateText` and `streamText`, which take
 * system messages at the start as instructions only: `generateText({ model,
 * ...fromChatMessages(ctx.prompt) })`. An `OsmosisToolLoopAgent` takes {@link toModelMessages}.
 *
 * @throws OsmosisError with code `invalid_request` for what the SDK has no form for
 */
export function fromChatMessages(prompt: readonly PromptMessage[]): ModelPrompt {
  const all = toModelMessages(prompt)
  const first = all.findIndex(({ role }) => role !== 'system')
  const system = all.slice(0, first === -1 ? all.length : first) as SystemModelMessage[]
  const messages = all.slice(system.length)
  return {
    ...(system.length > 0 ? { instructions: alone(system) } : {}),
    messages,
    ...(messages.some(({ role }) => role === 'system') ? { allowSystemInMessages: true } : {}),
  }
}

/**
 * Messages in chat completions form as messages of the SDK, one for each, system messages in their
 * places. They reach the policy as they were: what the SDK has no field for (the role `developer`,
 * `name`, `detail` of an image, the spaces in tool arguments) is carried in `providerOptions`. Only
 * a content of nothing but text parts becomes one string.
 *
 * @throws OsmosisError with code `invalid_request` for roles and parts the SDK has no form for
 */
export function toModelMessages(messages: readonly PromptMessage[]): ModelMessage[] {
  const toolNames = new Map<string, string>()
  return (messages as readonly ChatMessage[]).map((message): ModelMessage => {
    for (const call of message.tool_calls ?? []) {
      const { name } = functionOf(call)
      toolNames.set(call.id, name)
    }
    switch (message.role) {
      case 'system':
      case 'developer':
        return systemMessage(message)
      case 'user':
        return userMessage(message)
      case 'assistant':
        return assistantMessage(message)
      case 'tool':
        return toolMessage(message, toolNames)
      default:
        throw new OsmosisError(
          'invalid_request',
          `The AI SDK has no messages with the role ${JSON.stringify(message.role)}. Its roles are system, developer, user, assistant and tool.`,
        )
    }
  })
}

function alone(messages: SystemModelMessage[]): string | SystemModelMessage[] {
  const [only, ...others] = messages
  return only && others.length === 0 && !only.providerOptions ? only.content : messages
}

function systemMessage({ content, ...fields }: ChatMessage): SystemModelMessage {
  return { role: 'system', content: textOf(content), ...onTheWire(fields, { role: 'system' }) }
}

function userMessage({ content, ...fields }: ChatMessage): ModelMessage {
  const more = onTheWire(fields, { role: 'user' })
  const parts = Array.isArray(content) ? toUserParts(content) : undefined
  const [part, ...others] = parts ?? [{ type: 'text' as const, text: textOf(content) }]
  // Of a single text the SDK reads the options of the part, of anything else those of the message.
  if (part?.type !== 'text' || others.length > 0)
    return { role: 'user', content: parts ?? [], ...more }
  return { role: 'user', content: more.providerOptions ? [{ ...part, ...more }] : part.text }
}

function assistantMessage({ content, tool_calls, ...fields }: ChatMessage): ModelMessage {
  const { reasoning_content, reasoning, ...others } = fields
  const thinking = reasoning_content ?? reasoning
  const parts: AssistantParts = []
  if (thinking) parts.push({ type: 'reasoning', text: thinking })
  if (textOf(content) !== '') parts.push({ type: 'text', text: textOf(content) })
  for (const call of (tool_calls ?? []).map(withTextArguments)) {
    const input = toolInput(call.function.arguments)
    const sent = {
      id: call.id,
      type: 'function',
      function: { name: call.function.name, arguments: JSON.stringify(input) },
    }
    parts.push({
      type: 'tool-call',
      toolCallId: call.id,
      toolName: call.function.name,
      input,
      ...onTheWire(call, sent),
    })
  }
  const [only, ...more] = parts
  return {
    role: 'assistant',
    content: only?.type === 'text' && more.length === 0 ? only.text : parts,
    ...onTheWire(others, { role: 'assistant' }),
  }
}

function toolMessage(
  { content, tool_call_id: toolCallId = '', ...fields }: ChatMessage,
  names: ReadonlyMap<string, string>,
): ToolModelMessage {
  return {
    role: 'tool',
    content: [
      {
        type: 'tool-result',
        toolCallId,
        toolName: names.get(toolCallId) ?? fields.name ?? 'unknown',
        output: { type: 'text', value: textOf(content) },
        ...onTheWire(fields, { role: 'tool' }),
      },
    ],
  }
}

/** @throws OsmosisError for calls of other forms, such as those of custom tools */
function functionOf(call: ChatToolCall | null): ChatToolCall['function'] {
  const { type, function: called } = (call ?? {}) as Partial<ChatToolCall>
  if (isJsonObject(called)) return called
  throw new OsmosisError(
    'invalid_request',
    `The AI SDK has no form for tool calls of the type ${JSON.stringify(type)}.`,
  )
}

/** Rows may have arguments as an object. */
function withTextArguments(call: ChatToolCall): ChatToolCall {
  const given: unknown = call.function.arguments
  const text = typeof given === 'string' ? given : JSON.stringify(given ?? {})
  return { ...call, function: { ...call.function, arguments: text } }
}

/** As the SDK has it in its history: an empty object for what is not JSON. */
export function toolInput(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return {}
  }
}

type ProviderOptions = NonNullable<SystemModelMessage['providerOptions']>
type UserPart = Exclude<Extract<ModelMessage, { role: 'user' }>['content'], string>[number]

/**
 * Options that add fields to a message or part when it goes over the wire.
 *
 * @param fields - as they are to be sent
 * @param sent - as they are sent anyway; only what differs needs an option
 */
function onTheWire(
  fields: object,
  sent: Readonly<Record<string, unknown>>,
): { providerOptions?: ProviderOptions } {
  const differing = Object.entries(fields).filter(
    ([key, value]) => value !== undefined && !isDeepStrictEqual(value, sent[key]),
  )
  if (differing.length === 0) return {}
  const openaiCompatible: unknown = Object.fromEntries(differing)
  return { providerOptions: { openaiCompatible } as ProviderOptions }
}

/**
 * The text of a content; that of its parts put together.
 *
 * @throws OsmosisError with code `invalid_request` when it has parts other than text
 */
function textOf(content: ChatMessage['content']): string {
  if (!Array.isArray(content)) return content ?? ''
  return content
    .map((part: ChatContentPart | null) => {
      if (part?.type === 'text' && typeof part.text === 'string') return part.text
      throw unknownPart(part, 'outside of user messages')
    })
    .join('')
}

/**
 * Parts of a user message as the SDK has them.
 *
 * @throws OsmosisError with code `invalid_request` for types the SDK has no form for
 */
function toUserParts(parts: readonly ChatContentPart[]): UserPart[] {
  return parts.map(toUserPart)
}

function toUserPart(part: ChatContentPart | null): UserPart {
  if (part === null) throw unknownPart(part, 'in a user message')
  const { type, ...fields } = part
  switch (type) {
    case 'text':
      return { type, text: part.text ?? '', ...onTheWire(fields, { text: part.text }) }
    case 'image_url':
      return linkedFile(part, 'image')
    case 'video_url':
      return linkedFile(part, 'video')
    case 'input_audio': {
      const { data, format } = fieldsOf(part['input_audio'])
      if (typeof data !== 'string' || typeof format !== 'string')
        throw unknownPart(part, 'without data and format: two texts')
      const mediaType = format === 'mp3' ? 'audio/mpeg' : `audio/${format}`
      return { type: 'file', mediaType, data: { type: 'data', data } }
    }
    case 'file': {
      const { file_data, filename } = fieldsOf(part['file'])
      const inline = typeof file_data === 'string' ? dataUrl(file_data) : undefined
      if (!inline) throw unknownPart(part, 'without file_data: a data URL')
      return { type: 'file', ...inline, ...(typeof filename === 'string' ? { filename } : {}) }
    }
    default:
      throw unknownPart(part, 'in a user message')
  }
}

/** `image_url` and `video_url`: a web address, or the file itself as a data URL. */
function linkedFile(part: ChatContentPart, kind: 'image' | 'video'): UserPart {
  const { type, ...fields } = part
  const link = part[type]
  const url = typeof link === 'string' ? link : fieldsOf(link)['url']
  if (typeof url !== 'string') throw unknownPart(part, 'without a url: a web address or a data URL')
  if (!URL.canParse(url)) throw unknownPart(part, `with the address ${JSON.stringify(url)}`)
  const inline = dataUrl(url)
  const file = inline ?? { mediaType: kind, data: { type: 'url' as const, url: new URL(url) } }
  const sent = inline ? url : new URL(url).href
  return { type: 'file', ...file, ...onTheWire(fields, { [type]: { url: sent } }) }
}

/** The fields of an object; none of any other value. Nothing has checked the parts of a prompt. */
function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return isJsonObject(value) ? value : {}
}

function dataUrl(
  url: string,
): { mediaType: string; data: { type: 'data'; data: string } } | undefined {
  const [, mediaType, data] = /^data:([^;,]+);base64,([^]*)$/.exec(url) ?? []
  if (mediaType === undefined || data === undefined) return undefined
  return { mediaType, data: { type: 'data', data } }
}

function unknownPart(part: ChatContentPart | null, where: string): OsmosisError {
  return new OsmosisError(
    'invalid_request',
    `The AI SDK has no form for a part of the type ${JSON.stringify(part?.type)} ${where}.`,
  )
}
