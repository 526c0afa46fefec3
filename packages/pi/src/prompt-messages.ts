import type { AssistantMessage, ImageContent, Message, TextContent } from '@earendil-works/pi-ai'
import { OsmosisError, type PromptMessage } from '@osmosis/core'
import { isJsonObject, parseJson } from '@osmosis/core/http'
import type { ChatContentPart, ChatMessage, ChatToolCall } from '@osmosis/core/policy'

/**
 * Messages in chat completions form as messages of Pi: `agent.prompt(toAgentMessages(ctx.prompt))`. System messages follow the system
 * prompt of the agent.
 *
 * @throws OsmosisError with code `invalid_request` for roles and parts that Pi has no form for: everything but text, and images as data
 * URLs
 */
export function toAgentMessages(messages: readonly PromptMessage[]): Message[] {
  const names = new Map<string, string>()
  return (messages as readonly ChatMessage[]).map((message): Message => {
    const timestamp = Date.now()
    for (const call of message.tool_calls ?? []) {
      const { name } = functionOf(call)
      names.set(call.id, name)
    }
    const { role, content, tool_call_id: toolCallId = '' } = message
    if (role === 'system' || role === 'developer') {
      return { role: 'system', content: oneText(content), timestamp }
    }
    if (role === 'user') return { role, content: parts(content), timestamp }
    if (role === 'assistant') return assistantMessage(message, timestamp)
    if (role === 'tool') {
      const toolName = names.get(toolCallId) ?? 'unknown'
      return {
        role: 'toolResult',
        toolCallId,
        toolName,
        content: oneText(content),
        isError: false,
        timestamp,
      }
    }
    throw unknownForm(`messages with the role ${JSON.stringify(role)}`)
  })
}

function assistantMessage(message: ChatMessage, timestamp: number): AssistantMessage {
  const { reasoning_content, reasoning = reasoning_content } = message
  const calls = message.tool_calls ?? []
  return {
    role: 'assistant',
    content: [
      ...(reasoning ? [{ type: 'thinking' as const, thinking: reasoning }] : []),
      ...texts(message.content),
      ...texts(message.refusal),
      ...calls.map((call) => {
        const { name, arguments: given } = functionOf(call)
        return { type: 'toolCall' as const, id: call.id, name, arguments: argumentsOf(given) }
      }),
    ],
    api: 'osmosis',
    provider: 'osmosis',
    model: 'osmosis-rollout',
    usage: {
      input: 0,
      output: 0,
      cacheRead: 0,
      cacheWrite: 0,
      totalTokens: 0,
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
    },
    stopReason: calls.length > 0 ? 'toolUse' : 'stop',
    timestamp,
  }
}

/** @throws OsmosisError for calls of other forms, such as those of custom tools */
function functionOf(call: ChatToolCall | null): ChatToolCall['function'] {
  const { type, function: called } = (call ?? {}) as Partial<ChatToolCall>
  if (isJsonObject(called)) return called
  throw unknownForm(`tool calls of the type ${JSON.stringify(type)}`)
}

/** Data sets have arguments as objects, too. */
function argumentsOf(given: unknown): Record<string, never> {
  const value = typeof given === 'string' ? parseJson(given) : given
  if (isJsonObject(value)) return value as Record<string, never>
  const text = typeof given === 'string' ? given : JSON.stringify(given)
  throw unknownForm(`tool arguments that are not a JSON object: ${text}`)
}

function parts(content: ChatMessage['content']): string | (TextContent | ImageContent)[] {
  return Array.isArray(content) ? content.map(toPart) : (content ?? '')
}

function texts(content: ChatMessage['content']): TextContent[] {
  const all = Array.isArray(content)
    ? content.map(toPart)
    : [{ type: 'text' as const, text: content ?? '' }]
  return all.flatMap((one) => {
    if (one.type === 'image') throw unknownForm('images outside of user messages')
    return one.text === '' ? [] : [one]
  })
}

/** Pi puts line breaks between several texts of a system message, and of a result. */
function oneText(content: ChatMessage['content']): TextContent[] {
  return texts(
    texts(content)
      .map(({ text }) => text)
      .join(''),
  )
}

function toPart(part: ChatContentPart | null): TextContent | ImageContent {
  if (part?.type === 'text') return { type: 'text', text: part.text ?? '' }
  const { url = '' } = (part?.['image_url'] ?? {}) as { url?: string }
  const [, mimeType, data] = /^data:([^;,]+);base64,([^]*)$/.exec(url) ?? []
  if (mimeType === undefined || data === undefined) {
    throw unknownForm(
      `a part of the type ${JSON.stringify(part?.type)} without an image as a data URL`,
    )
  }
  return { type: 'image', mimeType, data }
}

function unknownForm(what: string): OsmosisError {
  return new OsmosisError('invalid_request', `Pi has no form for ${what}.`)
}
