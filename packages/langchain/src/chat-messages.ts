import { AIMessage, type BaseMessage, ToolMessage } from '@langchain/core/messages'
import { OsmosisError } from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'
import type { ChatMessage, ChatToolCall } from '@osmosis/core/policy'

import { textOf, toParts, type ContentBlock } from './content-parts.ts'

/**
 * Messages of LangChain in chat completions form. Calls with malformed arguments, which LangChain does not
 * execute, get its error as their result, because endpoints refuse calls without results.
 *
 * @throws OsmosisError with code `invalid_request` for messages and contents that have no such form
 */
export function toChatMessages(messages: readonly BaseMessage[]): ChatMessage[] {
  const chat: ChatMessage[] = []
  let open: ChatMessage[] = []
  for (const message of messages) {
    if (ToolMessage.isInstance(message)) {
      open = open.filter(({ tool_call_id }) => tool_call_id !== message.tool_call_id)
    } else {
      chat.push(...open)
      open = AIMessage.isInstance(message) ? resultsOfInvalidCalls(message) : []
    }
    chat.push(toChatMessage(message))
  }
  return [...chat, ...open]
}

function toChatMessage(message: BaseMessage): ChatMessage {
  const { name } = message
  const named = name === undefined ? {} : { name }
  if (ToolMessage.isInstance(message)) {
    const { tool_call_id } = message
    return { role: 'tool', tool_call_id, content: toContent(message) }
  }
  if (AIMessage.isInstance(message)) return { ...assistantMessage(message), ...named }
  const { type } = message as { type: string }
  switch (type) {
    case 'system':
      return { role: systemRole(message), content: textOf(message), ...named }
    case 'human':
      return { role: 'user', content: toContent(message), ...named }
    case 'generic':
      return { role: (message as { role?: string }).role ?? 'user', content: toContent(message) }
    default:
      throw new OsmosisError(
        'invalid_request',
        `A LangChain message of the type ${JSON.stringify(type)} has no chat completions form. Use system, human, ai and tool messages.`,
      )
  }
}

function systemRole({ additional_kwargs }: BaseMessage): string {
  return additional_kwargs['__openai_role__'] === 'developer' ? 'developer' : 'system'
}

function toContent(message: BaseMessage): NonNullable<ChatMessage['content']> {
  if (typeof message.content === 'string') return message.content
  const parts = toParts(message)
  const isText = parts.every(({ type }) => type === 'text')
  return isText ? parts.map(({ text }) => text ?? '').join('') : parts
}

/** Blocks of an assistant message that are not its text: they are read elsewhere. */
const besidesText = new Set([
  'function_call',
  'functionCall',
  'input_json_delta',
  'invalid_tool_call',
  'reasoning',
  'reasoning_content',
  'refusal',
  'thinking',
  'tool_call',
  'tool_call_chunk',
  'tool_use',
])

function assistantMessage(message: AIMessage): ChatMessage {
  const content = textOf(message, besidesText)
  const calls = toolCallsOf(message)
  const reasoning = reasoningOf(message)
  const refusal = refusalOf(message)
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(refusal ? { refusal } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
}

/** The calls in the order of their blocks: LangChain keeps malformed ones, of other models, in a list of their own. */
function toolCallsOf(message: AIMessage): ChatToolCall[] {
  const calls = [
    ...(message.tool_calls ?? []).map(chatCallOf),
    ...invalidCallsOf(message).map(({ id, name, args }) => toChatCall(id, name, args ?? '')),
  ]
  if (calls.length < 2) return calls
  const order = orderOf(message)
  const place = ({ id }: ChatToolCall): number => {
    const index = order.indexOf(id)
    return index === -1 ? order.length : index
  }
  return calls.toSorted((a, b) => place(a) - place(b))
}

type MadeCall = NonNullable<AIMessage['tool_calls']>[number]

/** LangChain leaves a call of a prompt as it is where its arguments are no text: rows may have them as an object. */
function chatCallOf(call: MadeCall): ChatToolCall {
  const { type, function: called } = call as { type?: unknown; function?: unknown }
  const given = isJsonObject(called) ? called : { name: call.name, arguments: call.args }
  if (typeof given['name'] === 'string')
    return toChatCall(call.id, given['name'], given['arguments'] ?? {})
  throw new OsmosisError(
    'invalid_request',
    `A tool call of the type ${JSON.stringify(type)} in an AIMessage has no chat completions form here. Use calls of functions, with a name.`,
  )
}

function toChatCall(id: string | undefined, name = '', args: unknown): ChatToolCall {
  if (id === undefined) {
    throw new OsmosisError(
      'invalid_request',
      `The call of the tool ${JSON.stringify(name)} in an AIMessage has no id. Give it the tool_call_id of its ToolMessage.`,
    )
  }
  const text = typeof args === 'string' ? args : JSON.stringify(args)
  return { id, type: 'function', function: { name, arguments: text } }
}

type InvalidCall = NonNullable<AIMessage['invalid_tool_calls']>[number]

function invalidCallsOf(message: AIMessage): InvalidCall[] {
  if (message.invalid_tool_calls?.length) return message.invalid_tool_calls
  // LangChain's newer events leave them among the content only.
  return blocksOf(message).filter(({ type }) => type === 'invalid_tool_call') as InvalidCall[]
}

function resultsOfInvalidCalls(message: AIMessage): ChatMessage[] {
  return invalidCallsOf(message).map(({ id = '', error = 'Malformed args.' }) => ({
    role: 'tool',
    tool_call_id: id,
    content: `Error: ${error}`,
  }))
}

function orderOf(message: AIMessage): unknown[] {
  return blocksOf(message).flatMap((block) =>
    block.type === 'tool_call' || block.type === 'invalid_tool_call' ? [block['id']] : [],
  )
}

function reasoningOf(message: AIMessage): string {
  const given: unknown = message.additional_kwargs['reasoning_content']
  if (typeof given === 'string') return given
  const ofPrompt = promptText(message, 'reasoning_content', 'reasoning')
  if (ofPrompt !== undefined) return ofPrompt
  return textsOf(message, { reasoning: 'reasoning', thinking: 'thinking' })
}

function refusalOf(message: AIMessage): string {
  const given: unknown = message.additional_kwargs['refusal']
  if (typeof given === 'string') return given
  return promptText(message, 'refusal') ?? textsOf(message, { refusal: 'refusal' })
}

/** LangChain's messages have no fields for these of a prompt in chat completions form, but keep what they were made of. */
function promptText({ lc_kwargs }: AIMessage, ...fields: readonly string[]): string | undefined {
  const made = lc_kwargs as Readonly<Record<string, unknown>>
  return fields.map((field) => made[field]).find((text) => typeof text === 'string')
}

/** @param fields - the field that has the text, by type of block */
function textsOf(message: AIMessage, fields: Readonly<Record<string, string>>): string {
  return blocksOf(message)
    .map((block) => {
      const field = Object.hasOwn(fields, String(block.type))
        ? fields[String(block.type)]
        : undefined
      const text = field === undefined ? undefined : block[field]
      return typeof text === 'string' ? text : ''
    })
    .join('')
}

function blocksOf({ content }: BaseMessage): ContentBlock[] {
  return Array.isArray(content) ? content : []
}
