import type { LanguageModelV4Message, LanguageModelV4Prompt } from '@ai-sdk/provider'
import type { ChatContentPart, ChatMessage, ChatToolCall } from '@osmosis/core/policy'

import { type AnswerMemory, type AssistantPart, toolInput } from './answer-memory.ts'

type UserPart = Extract<LanguageModelV4Message, { role: 'user' }>['content'][number]
type ToolPart = Extract<LanguageModelV4Message, { role: 'tool' }>['content'][number]

/** What a request asks that cannot be put to a provider. */
export class UnsupportedRequest extends Error {
  override readonly name = 'UnsupportedRequest'
}

/**
 * The messages of a chat completions request as a prompt of the AI SDK. Answers that `memory` still
 * has go back with what the wire has no place for: signatures of thinking, ids of items.
 *
 * @throws UnsupportedRequest
 */
export function toPrompt(
  messages: readonly ChatMessage[],
  memory: AnswerMemory,
): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = []
  const toolNames = new Map<string, string>()
  for (const message of messages) {
    switch (message.role) {
      case 'system':
      case 'developer':
        prompt.push({ role: 'system', content: textOf(message) })
        break
      case 'user':
        prompt.push({ role: 'user', content: userParts(message) })
        break
      case 'assistant': {
        for (const call of message.tool_calls ?? []) {
          const { id, type, function: called } = call as Partial<ChatToolCall>
          if (id === undefined || called === undefined) {
            throw new UnsupportedRequest(`tool calls of type ${JSON.stringify(type)}`)
          }
          toolNames.set(id, called.name)
        }
        const content = memory.recall(message) ?? assistantParts(message)
        if (content.length > 0) prompt.push({ role: 'assistant', content })
        break
      }
      case 'tool': {
        const part = toolPart(message, toolNames)
        const last = prompt.at(-1)
        // The results of parallel calls are one message there.
        if (last?.role === 'tool') last.content.push(part)
        else prompt.push({ role: 'tool', content: [part] })
        break
      }
      default:
        throw new UnsupportedRequest(`messages of role ${JSON.stringify(message.role)}`)
    }
  }
  return prompt
}

function userParts({ content }: ChatMessage): UserPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return (content ?? []).map(userPart)
}

function userPart(part: ChatContentPart): UserPart {
  if (part.type === 'text' && typeof part.text === 'string')
    return { type: 'text', text: part.text }
  const { url } = (part['image_url'] ?? {}) as { url?: unknown }
  if (part.type !== 'image_url' || typeof url !== 'string') {
    throw new UnsupportedRequest(`content parts of type ${JSON.stringify(part.type)}`)
  }
  const [, mediaType, data] = /^data:([\w/.+-]+);base64,(.*)$/s.exec(url) ?? []
  if (mediaType !== undefined && data !== undefined) {
    return { type: 'file', mediaType, data: { type: 'data', data } }
  }
  const address = URL.parse(url)
  if (address === null) {
    throw new UnsupportedRequest(`an image whose address is not a URL (${JSON.stringify(url)})`)
  }
  return { type: 'file', mediaType: 'image/*', data: { type: 'url', url: address } }
}

function assistantParts(message: ChatMessage): AssistantPart[] {
  const thought = message.reasoning_content ?? message.reasoning
  const text = textOf(message)
  return [
    ...(thought ? [{ type: 'reasoning' as const, text: thought }] : []),
    ...(text === '' ? [] : [{ type: 'text' as const, text }]),
    ...(message.tool_calls ?? []).map(({ id, function: called }) => ({
      type: 'tool-call' as const,
      toolCallId: id,
      toolName: called.name,
      input: toolInput(called.arguments),
    })),
  ]
}

function toolPart(message: ChatMessage, toolNames: ReadonlyMap<string, string>): ToolPart {
  const toolCallId = message.tool_call_id ?? ''
  const toolName = toolNames.get(toolCallId)
  if (toolName === undefined) {
    throw new UnsupportedRequest(
      `a tool result without the call it belongs to (${JSON.stringify(toolCallId)})`,
    )
  }
  return {
    type: 'tool-result',
    toolCallId,
    toolName,
    output: { type: 'text', value: textOf(message) },
  }
}

function textOf({ content }: ChatMessage): string {
  if (typeof content === 'string') return content
  return (content ?? [])
    .map(({ type, text }) => {
      if (type === 'text' && typeof text === 'string') return text
      throw new UnsupportedRequest(
        `content parts of type ${JSON.stringify(type)} outside of a user message`,
      )
    })
    .join('')
}
