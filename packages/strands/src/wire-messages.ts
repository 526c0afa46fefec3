import type {
  ContentBlock,
  Message,
  SystemPrompt,
  ToolResultBlock,
  ToolUseBlock,
} from '@strands-agents/sdk'
import type { ChatContentPart, ChatMessage, ChatToolCall } from '@osmosis/core/policy'

import type { TurnMemory } from './turn-memory.ts'
import { toWirePart } from './wire-parts.ts'

/**
 * A conversation of Strands in chat completions form. Messages of the prompt go out as they were
 * given; turns of the policy are written so that core recognises them.
 *
 * @throws OsmosisError with code `invalid_request` for content that chat completions cannot carry
 */
export function toWireMessages(
  messages: readonly Message[],
  systemPrompt: SystemPrompt | undefined,
  memory: TurnMemory,
): ChatMessage[] {
  const system = systemText(systemPrompt)
  const conversation = messages.flatMap(
    (message) =>
      memory.promptOf(message) ??
      (message.role === 'assistant' ? assistantMessage(message, memory) : userMessages(message)),
  )
  return system === '' ? conversation : [{ role: 'system', content: system }, ...conversation]
}

function systemText(prompt: SystemPrompt | undefined): string {
  if (typeof prompt === 'string') return prompt
  return joinedText((prompt ?? []).flatMap((block) => toWirePart(block)))
}

function assistantMessage({ content }: Message, memory: TurnMemory): ChatMessage {
  const calls: ChatToolCall[] = []
  const parts: ChatContentPart[] = []
  let reasoning = ''
  for (const block of content) {
    if (block.type === 'toolUseBlock') calls.push(toolCall(block, memory))
    else if (block.type === 'reasoningBlock') reasoning += block.text ?? ''
    else parts.push(...toWirePart(block))
  }
  return {
    role: 'assistant',
    content: joinedText(parts),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
}

function toolCall(block: ToolUseBlock, memory: TurnMemory): ChatToolCall {
  return {
    id: block.toolUseId,
    type: 'function',
    function: { name: memory.nameOf(block), arguments: JSON.stringify(block.input ?? {}) },
  }
}

/** Tool results first, as they have to follow the calls; then their images, then the rest. */
function userMessages({ content }: Message): ChatMessage[] {
  const results = content.filter((block) => block.type === 'toolResultBlock').map(toolResult)
  const rest = content.filter((block) => block.type !== 'toolResultBlock')
  return [
    ...results.map(({ message }) => message),
    ...results.flatMap(({ images }) => (images.length > 0 ? [userMessage(images)] : [])),
    ...(rest.length > 0 || results.length === 0 ? [userMessage(rest.flatMap(toWirePart))] : []),
  ]
}

function userMessage(parts: ChatContentPart[]): ChatMessage {
  const [only, ...others] = parts
  if (only === undefined) return { role: 'user', content: '' }
  // Chat templates expect a plain string where it can be one.
  const isText = only.type === 'text' && others.length === 0
  return { role: 'user', content: isText ? (only.text ?? '') : parts }
}

function toolResult(block: ToolResultBlock): { message: ChatMessage; images: ChatContentPart[] } {
  const parts = block.content.flatMap((item) =>
    item.type === 'jsonBlock'
      ? [{ type: 'text', text: JSON.stringify(item.json) }]
      : toWirePart(item as ContentBlock),
  )
  const images = parts.filter(({ type }) => type !== 'text')
  const said = joinedText(parts.filter(({ type }) => type === 'text'))
  const text = said === '' && images.length > 0 ? '[The result is in the next message.]' : said
  return {
    message: {
      role: 'tool',
      tool_call_id: block.toolUseId,
      content: block.status === 'error' ? `[ERROR] ${text}` : text,
    },
    images,
  }
}

function joinedText(parts: readonly ChatContentPart[]): string {
  return parts.map(({ text }) => text ?? '').join('')
}
