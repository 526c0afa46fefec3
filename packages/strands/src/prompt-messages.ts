import { OsmosisError, type PromptMessage } from '@osmosis/core'
import { isJsonObject, parseJson } from '@osmosis/core/http'
import type { ChatContentPart, ChatMessage, ChatToolCall } from '@osmosis/core/policy'
import {
  type ContentBlock,
  Message,
  type MessageData,
  ReasoningBlock,
  ToolResultBlock,
  ToolUseBlock,
  ImageBlock,
  type ImageFormat,
  TextBlock,
} from '@strands-agents/sdk'

import type { TurnMemory } from './turn-memory.ts'

/** Messages as an agent takes them: `ctx.prompt`, messages of Strands, or both. */
export type PromptMessages = readonly (Message | MessageData | PromptMessage)[]

/** A prompt in the form of Strands. */
export interface ConvertedPrompt {
  readonly messages: Message[]
  /** The text of the system messages it begins with: Strands has a system prompt for them. */
  readonly system: string | undefined
}

/**
 * A prompt as messages of Strands. Messages of Strands stay as they are.
 *
 * @param memory - notes what each message was made of, so that it goes out as it was given
 * @throws OsmosisError with code `invalid_request` for what Strands has no form for, with its place
 */
export function fromPrompt(
  prompt: PromptMessages,
  memory: TurnMemory | undefined,
): ConvertedPrompt {
  const converted: { message: Message; given: ChatMessage[] }[] = []
  const system: string[] = []
  for (const [index, item] of prompt.entries()) {
    const where = `messages[${index}]`
    const previous = converted.at(-1)
    if (!isChatMessage(item)) {
      converted.push({ message: toMessage(item), given: [] })
    } else if (isSystem(item) && previous === undefined) {
      system.push(joinedText((item as ChatMessage).content, where))
    } else if (item.role === 'tool' && previous?.given.at(-1)?.role === 'tool') {
      // Strands answers all calls of one turn in one message.
      previous.message.content.push(toolResult(item, where))
      previous.given.push(item)
    } else {
      converted.push({ message: convert(item, where), given: [item] })
    }
  }
  for (const { message, given } of converted) {
    if (given.length > 0) memory?.notePrompt(message, given)
  }
  return {
    messages: converted.map(({ message }) => message),
    system: system.length > 0 ? system.join('\n\n') : undefined,
  }
}

/** Whether a value is a message in a form that only chat completions has. */
export function isChatMessage(value: unknown): value is ChatMessage {
  if (typeof value !== 'object' || value === null) return false
  const { type, role, content, tool_calls } = value as ChatMessage
  if (typeof role !== 'string' || type === 'message') return false
  if ((role !== 'user' && role !== 'assistant') || tool_calls !== undefined) return true
  if (!Array.isArray(content)) return true
  // Blocks of Strands have a type when they are instances (`textBlock`), and none as plain data.
  return content.some(
    (part: ChatContentPart | null) =>
      part === null || (typeof part.type === 'string' && !part.type.endsWith('Block')),
  )
}

function toMessage(message: Message | MessageData): Message {
  return message instanceof Message ? message : Message.fromMessageData(message)
}

function isSystem({ role }: ChatMessage): boolean {
  return role === 'system' || role === 'developer'
}

function convert(message: ChatMessage, where: string): Message {
  const { role, content } = message
  switch (role) {
    case 'system':
    case 'developer':
    case 'user':
      return new Message({ role: 'user', content: toBlocks(content, where) })
    case 'assistant':
      return new Message({ role: 'assistant', content: assistantBlocks(message, where) })
    case 'tool':
      return new Message({ role: 'user', content: [toolResult(message, where)] })
    default:
      throw new OsmosisError(
        'invalid_request',
        `${where} has the role ${JSON.stringify(role)}; the roles of a prompt are system, developer, user, assistant and tool.`,
      )
  }
}

function assistantBlocks(message: ChatMessage, where: string): ContentBlock[] {
  const { content, reasoning_content, reasoning, refusal } = message
  const thinking = reasoning_content || reasoning
  return [
    ...(thinking ? [new ReasoningBlock({ text: thinking })] : []),
    ...toBlocks(content, where),
    ...toBlocks(refusal, where),
    ...(message.tool_calls ?? []).map((call) => {
      const { name, arguments: text } = functionOf(call, where)
      return new ToolUseBlock({ toolUseId: call.id, name, input: argumentsOf(text) as never })
    }),
  ]
}

/** @throws OsmosisError for calls of other forms, such as those of custom tools */
function functionOf(call: ChatToolCall | null, where: string): ChatToolCall['function'] {
  const { type, function: called } = (call ?? {}) as Partial<ChatToolCall>
  if (isJsonObject(called)) return called
  throw new OsmosisError(
    'invalid_request',
    `${where} has a tool call of the type ${JSON.stringify(type)}, for which Strands has no form. It takes calls of functions.`,
  )
}

/** The arguments of a call in the data set; anything but a JSON object becomes an empty one. */
function argumentsOf(value: unknown): object {
  const parsed = typeof value === 'string' ? parseJson(value) : value
  return isJsonObject(parsed) ? parsed : {}
}

function toolResult({ tool_call_id, content }: ChatMessage, where: string): ToolResultBlock {
  if (typeof tool_call_id !== 'string' || tool_call_id === '') {
    throw new OsmosisError('invalid_request', `${where} is a tool message without a tool_call_id.`)
  }
  return new ToolResultBlock({
    toolUseId: tool_call_id,
    status: 'success',
    content: toBlocks(content, where),
  })
}

type Content = ChatMessage['content']

/**
 * The content of a chat completions message as blocks of Strands.
 *
 * @throws OsmosisError with code `invalid_request` for a part that Strands has no block for
 */
function toBlocks(content: Content | undefined, where: string): (TextBlock | ImageBlock)[] {
  if (content === undefined || content === null || content === '') return []
  if (typeof content === 'string') return [new TextBlock(content)]
  return content.map((part: ChatContentPart | null, index) => {
    if (part?.type === 'text') return new TextBlock(part.text ?? '')
    if (part?.type === 'refusal') return new TextBlock(part['refusal'] as string)
    const image = part?.type === 'image_url' ? addressOf(part['image_url']) : undefined
    if (image === undefined)
      throw unsupported(`${where}.content[${index}]`, part?.type, 'text, image_url with a url')
    return imageBlock(image)
  })
}

/**
 * The text of a message that can hold nothing but text.
 *
 * @throws OsmosisError with code `invalid_request` when it holds something else
 */
function joinedText(content: Content | undefined, where: string): string {
  if (typeof content === 'string') return content
  return (content ?? [])
    .map((part: ChatContentPart | null, index) => {
      if (part?.type === 'text') return part.text ?? ''
      throw unsupported(`${where}.content[${index}]`, part?.type, 'text')
    })
    .join('')
}

function addressOf(image: unknown): string | undefined {
  const url = isJsonObject(image) ? image['url'] : image
  return typeof url === 'string' ? url : undefined
}

/** By its address, data URLs included: bytes would be coded again for every model call. */
function imageBlock(url: string): ImageBlock {
  return new ImageBlock({ format: imageFormat(url), source: { url } })
}

function imageFormat(url: string): ImageFormat {
  const [, ofData, ofPath] =
    /^data:image\/([a-z]+)|\.(png|jpe?g|gif|webp)(?:[?#]|$)/i.exec(url) ?? []
  const format = (ofData ?? ofPath ?? '').toLowerCase()
  if (format === 'jpg' || format === 'jpeg') return 'jpeg'
  return format === 'gif' || format === 'webp' ? format : 'png'
}

function unsupported(where: string, type: string | undefined, supported: string): OsmosisError {
  return new OsmosisError(
    'invalid_request',
    `${where} is a part of type ${JSON.stringify(type)}, for which Strands has no form. Parts it takes there: ${supported}.`,
  )
}
