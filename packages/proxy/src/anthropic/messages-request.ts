import type {
  ChatCompletionRequest,
  ChatContentPart,
  ChatMessage,
  ChatToolCall,
} from '@osmosis/core/policy'

import {
  addUnknown,
  assertChoice,
  conversationAt,
  given,
  isEmptyMessage,
  isGiven,
  leaveOut,
  type WireObject,
  listAt,
  objectAt,
  refuse,
  textAt,
} from '../dialect.ts'
import { toPolicyId } from './tool-ids.ts'

const knownFields = new Set([
  'max_tokens',
  'messages',
  'model',
  'output_config',
  'stop_sequences',
  'stream',
  'system',
  'temperature',
  'tool_choice',
  'tools',
  'top_k',
  'top_p',
])

/**
 * A request of Anthropic's Messages API as chat completions. The same content always becomes the same message, so
 * that each request begins with the messages of the one before: texts become one string, and `cache_control`,
 * which moves from block to block, is left out.
 * Source: https://docs.anthropic.com/en/api/messages
 *
 * @param leftOut - receives the names of what chat completions cannot say
 * @throws RefusedField
 */
export function fromMessagesRequest(body: WireObject, leftOut: Set<string>): ChatCompletionRequest {
  addUnknown(body, knownFields, leftOut)
  return {
    messages: chatMessages(body, leftOut),
    ...given({
      max_tokens: body['max_tokens'],
      temperature: body['temperature'],
      top_p: body['top_p'],
      top_k: body['top_k'],
      stop: body['stop_sequences'],
    }),
    ...outputSettings(body['output_config'], leftOut),
    ...toolSettings(body, leftOut),
  }
}

/** What is known of a conversation while its blocks are read. */
interface Reading {
  /** Ids of the calls so far. */
  readonly calls: Set<string>
  /** Ids of the calls that are left out, as their results are. */
  readonly callsLeftOut: Set<string>
  /** Names of what is left out. */
  readonly leftOut: Set<string>
}

function chatMessages({ system, messages }: WireObject, leftOut: Set<string>): ChatMessage[] {
  const reading: Reading = { calls: new Set(), callsLeftOut: new Set(), leftOut }
  const chat: ChatMessage[] = []
  // Servers refuse turns without words, or their templates show them as such.
  const say = (...said: ChatMessage[]): void => {
    chat.push(...said.filter((message) => !isEmptyMessage(message)))
  }
  if (isGiven(system)) say(systemMessage(system, 'system', reading))
  for (const [n, item] of conversationAt(messages, 'messages').entries()) {
    const place = `messages[${n}]`
    const { role, content } = objectAt(item, place)
    const at = `${place}.content`
    if (role === 'user') say(...userMessages(content, at, reading))
    else if (role === 'assistant') {
      const turn = assistantMessage(content, at, reading)
      // The policy may have said nothing, or only have thought.
      if (isSilent(content) || turn.reasoning_content !== undefined) chat.push(turn)
      else say(turn)
    }
    // Claude's Agent SDK describes its environment that way.
    else if (role === 'system') say(systemMessage(content, at, reading))
    else refuse(`${place}.role`, 'user, assistant or system', role)
  }
  if (chat.length === 0) refuse('messages', 'something that the policy can read', messages)
  if (chat.at(-1)?.role === 'assistant') {
    refuse(
      'messages',
      'the last one to be of the user, and to have something that the policy can read: it cannot continue a text',
      'assistant',
    )
  }
  return chat
}

/** Whether the client itself sent a turn without content, as it received it. */
function isSilent(content: unknown): boolean {
  return content === '' || (Array.isArray(content) && content.length === 0)
}

function systemMessage(content: unknown, place: string, reading: Reading): ChatMessage {
  const blocks = blocksOf(content, place, ['text'], reading)
  const texts = blocks.map(({ block, at }) => textAt(block['text'], `${at}.text`))
  return { role: 'system', content: texts.join('\n') }
}

/** Results first, each in a message of its own, then their images, then what the user said. */
function userMessages(content: unknown, place: string, reading: Reading): ChatMessage[] {
  const results: ChatMessage[] = []
  const images: ChatContentPart[] = []
  const said: ChatContentPart[] = []
  for (const { block, at } of blocksOf(content, place, ['text', 'image', 'tool_result'], reading)) {
    if (block['type'] !== 'tool_result') said.push(...userParts(block, at, reading))
    else {
      const result = toolResult(block, at, reading)
      results.push(...result.messages)
      images.push(...result.images)
    }
  }
  const messages = [...results]
  if (images.length > 0) messages.push({ role: 'user', content: images })
  if (said.length > 0 || results.length === 0) {
    messages.push({ role: 'user', content: onlyText(said) ?? said })
  }
  return messages
}

function toolResult(
  block: WireObject,
  at: string,
  reading: Reading,
): { messages: ChatMessage[]; images: ChatContentPart[] } {
  const id = toPolicyId(textAt(block['tool_use_id'], `${at}.tool_use_id`))
  if (!reading.calls.has(id)) {
    if (reading.callsLeftOut.has(id)) return { messages: [], images: [] }
    refuse(`${at}.tool_use_id`, 'the id of a tool_use before it', id)
  }
  const blocks = blocksOf(block['content'] ?? '', `${at}.content`, ['text', 'image'], reading)
  const parts = blocks.flatMap(({ block: part, at: where }) => userParts(part, where, reading))
  const content = onlyText(parts.filter(({ type }) => type === 'text')) ?? ''
  return {
    messages: [{ role: 'tool', tool_call_id: id, content }],
    images: parts.filter(({ type }) => type !== 'text'),
  }
}

/** The part of a message that a text or an image becomes; none for an image of a file of Anthropic's servers. */
function userParts(block: WireObject, at: string, { leftOut }: Reading): ChatContentPart[] {
  if (block['type'] === 'text') return [{ type: 'text', text: textAt(block['text'], `${at}.text`) }]
  const source = objectAt(block['source'], `${at}.source`)
  const type = textAt(source['type'], `${at}.source.type`)
  if (type !== 'base64' && type !== 'url') {
    leaveOut('block', `image of ${type}`, leftOut)
    return []
  }
  const url =
    type === 'url'
      ? textAt(source['url'], `${at}.source.url`)
      : `data:${textAt(source['media_type'], `${at}.source.media_type`)};base64,${textAt(source['data'], `${at}.source.data`)}`
  return [{ type: 'image_url', image_url: { url } }]
}

function assistantMessage(content: unknown, place: string, reading: Reading): ChatMessage {
  let text = ''
  let thinking = ''
  const toolCalls: ChatToolCall[] = []
  for (const { block, at } of blocksOf(content, place, ['text', 'thinking', 'tool_use'], reading)) {
    if (block['type'] === 'text') text += textAt(block['text'], `${at}.text`)
    else if (block['type'] === 'thinking') thinking += textAt(block['thinking'], `${at}.thinking`)
    else toolCalls.push(toolCall(block, at))
  }
  for (const { id } of toolCalls) reading.calls.add(id)
  return {
    role: 'assistant',
    content: text === '' && toolCalls.length > 0 ? null : text,
    ...(thinking === '' ? {} : { reasoning_content: thinking }),
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  }
}

function toolCall(block: WireObject, at: string): ChatToolCall {
  return {
    id: toPolicyId(textAt(block['id'], `${at}.id`)),
    type: 'function',
    function: {
      name: textAt(block['name'], `${at}.name`),
      arguments: JSON.stringify(objectAt(block['input'], `${at}.input`)),
    },
  }
}

/** The blocks of a content that are of these types, the others are left out. A text is one block. */
function blocksOf(
  content: unknown,
  place: string,
  types: readonly string[],
  { leftOut, callsLeftOut }: Reading,
): { block: WireObject; at: string }[] {
  if (typeof content === 'string') {
    return content === '' ? [] : [{ block: { type: 'text', text: content }, at: place }]
  }
  return listAt(content, place).flatMap((value, n) => {
    const at = `${place}[${n}]`
    const block = objectAt(value, at)
    const type = textAt(block['type'], `${at}.type`)
    if (types.includes(type)) return [{ block, at }]
    leaveOut('block', type, leftOut)
    if (typeof block['id'] === 'string') callsLeftOut.add(toPolicyId(block['id']))
    return []
  })
}

/** The texts as one, a line each; undefined when there is something else. */
function onlyText(parts: readonly ChatContentPart[]): string | undefined {
  if (!parts.every(({ type }) => type === 'text')) return undefined
  return parts.map(({ text }) => text).join('\n')
}

function outputSettings(config: unknown, leftOut: Set<string>): WireObject {
  if (!isGiven(config)) return {}
  const { format, ...others } = objectAt(config, 'output_config')
  for (const name of Object.keys(others)) leftOut.add(`output_config.${name}`)
  if (!isGiven(format)) return {}
  const { type, schema } = objectAt(format, 'output_config.format')
  if (type !== 'json_schema') refuse('output_config.format.type', 'json_schema', type)
  return {
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'output', schema: objectAt(schema, 'output_config.format.schema') },
    },
  }
}

function toolSettings(
  { tools, tool_choice: choice }: WireObject,
  leftOut: Set<string>,
): WireObject {
  const functions = listAt(tools ?? [], 'tools').flatMap((item, n) => {
    const { type, name, description, input_schema: parameters } = objectAt(item, `tools[${n}]`)
    if (isGiven(parameters)) {
      const own = given({ name: textAt(name, `tools[${n}].name`), description, parameters })
      return [{ type: 'function', function: own }]
    }
    // Executed by Anthropic's servers.
    leaveOut('tool', name ?? type, leftOut)
    return []
  })
  const chosen = isGiven(choice) ? choiceSettings(choice) : {}
  assertChoice(chosen['tool_choice'], functions)
  return functions.length === 0 ? {} : { tools: functions, ...chosen }
}

function choiceSettings(choice: unknown): WireObject {
  const { type, name, disable_parallel_tool_use: single } = objectAt(choice, 'tool_choice')
  const parallel = single === true ? { parallel_tool_calls: false } : {}
  switch (type) {
    case 'auto':
      return { tool_choice: 'auto', ...parallel }
    case 'any':
      return { tool_choice: 'required', ...parallel }
    case 'none':
      return { tool_choice: 'none' }
    case 'tool': {
      const named = { name: textAt(name, 'tool_choice.name') }
      return { tool_choice: { type: 'function', function: named }, ...parallel }
    }
    default:
      return refuse('tool_choice.type', 'auto, any, none or tool', type)
  }
}
