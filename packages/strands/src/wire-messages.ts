import { OsmosisError } from '@osmosis/core'
import type { ChatContentPart, ChatMessage, ChatToolCall } from '@osmosis/core/policy'
import type {
  ContentBlock,
  Message,
  SystemPrompt,
  ToolResultBlock,
  ToolUseBlock,
  DocumentBlock,
  ImageBlock,
} from '@strands-agents/sdk'

import type { TurnMemory } from './turn-memory.ts'

/**
 * A content block of Strands as parts of a chat completions message; none for a mark that only
 * concerns caches.
 *
 * @throws OsmosisError with code `invalid_request` for what chat completions cannot carry
 */
function toWirePart(block: ContentBlock): ChatContentPart[] {
  // No `switch`: later versions of the SDK have more kinds of blocks than earlier ones.
  if (block.type === 'textBlock') return [textPart(block.text)]
  if (block.type === 'cachePointBlock') return []
  if (block.type === 'guardContentBlock' && block.text) return [textPart(block.text.text)]
  if (block.type === 'citationsBlock') {
    return [textPart(block.content.map((item) => ('text' in item ? item.text : '')).join(''))]
  }
  if (block.type === 'imageBlock') {
    return [{ type: 'image_url', image_url: { url: imageUrl(block) } }]
  }
  if (block.type === 'documentBlock') return [documentPart(block)]
  return refuse(block.type)
}

function imageUrl({ format, source }: ImageBlock): string {
  switch (source.type) {
    case 'imageSourceUrl':
      return source.url
    case 'imageSourceBytes':
      return dataUrl(`image/${format === 'jpg' ? 'jpeg' : format}`, source.bytes)
    case 'imageSourceS3Location':
      return refuse('imageBlock with an S3 location')
  }
}

function documentPart({ name, format, source }: DocumentBlock): ChatContentPart {
  switch (source.type) {
    case 'documentSourceText':
      return textPart(source.text)
    case 'documentSourceContentBlock':
      return textPart(source.content.map((item) => item.text).join(''))
    case 'documentSourceBytes': {
      const file_data = dataUrl(mimeTypes[format] ?? `application/${format}`, source.bytes)
      return { type: 'file', file: { filename: name, file_data } }
    }
    case 'documentSourceS3Location':
      return refuse('documentBlock with an S3 location')
  }
}

const mimeTypes: Readonly<Record<string, string>> = {
  csv: 'text/csv',
  doc: 'application/msword',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  html: 'text/html',
  md: 'text/markdown',
  txt: 'text/plain',
  xls: 'application/vnd.ms-excel',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
}

function textPart(value: string): ChatContentPart {
  return { type: 'text', text: value }
}

function dataUrl(mimeType: string, bytes: Uint8Array): string {
  return `data:${mimeType};base64,${Buffer.from(bytes).toString('base64')}`
}

function refuse(what: string): never {
  throw new OsmosisError(
    'invalid_request',
    `The policy speaks chat completions, which cannot carry a ${what}. Give it as text, as an image or as a document with its bytes.`,
  )
}

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
