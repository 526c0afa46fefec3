import type {
  ChatCompletionRequest,
  ChatContentPart,
  ChatMessage,
  ChatToolCall,
} from '@osmosis/core/policy'

import {
  addUnknown,
  assertChoice,
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

const knownFields = new Set([
  'input',
  'instructions',
  'max_output_tokens',
  'model',
  'parallel_tool_calls',
  'previous_response_id',
  'store',
  'stream',
  'temperature',
  'text',
  'tool_choice',
  'tools',
  'top_p',
])

/** State or templates that only OpenAI's servers have: without them another conversation would be answered. */
const serverFields = ['background', 'conversation', 'prompt'] as const

/** Finds an item of an earlier response. */
type ItemLookup = (id: string) => WireObject | undefined

/** The settings of a request of OpenAI's Responses API, without its messages. */
export function settingsOf(
  body: WireObject,
  functions: FunctionNames,
  leftOut: Set<string>,
): Omit<ChatCompletionRequest, 'messages'> {
  for (const name of serverFields) {
    if (body[name]) refuse(name, 'nothing: the policy has no such service', body[name])
  }
  addUnknown(body, knownFields, leftOut)
  return {
    ...given({
      max_tokens: body['max_output_tokens'],
      temperature: body['temperature'],
      top_p: body['top_p'],
    }),
    ...textSettings(body['text'], leftOut),
    ...toolSettings(body, functions, leftOut),
  }
}

/** What the items of a request are read with. */
export interface ItemReading {
  readonly functions: FunctionNames
  readonly itemOf: ItemLookup
  /** Receives the names of what is left out. */
  readonly leftOut: Set<string>
}

/**
 * Items as messages. Reasoning, text and calls that follow one another are one message of the assistant.
 * Source: https://platform.openai.com/docs/api-reference/responses
 *
 * @param earlier - the conversation that the items continue
 * @throws RefusedField
 */
export function messagesOf(
  { input, instructions }: WireObject,
  earlier: readonly ChatMessage[],
  { functions, itemOf, leftOut }: ItemReading,
): ChatMessage[] {
  const items =
    typeof input === 'string' ? [{ role: 'user', content: input }] : listAt(input, 'input')
  const calls = new Set(earlier.flatMap(({ tool_calls: made = [] }) => made.map(({ id }) => id)))
  // Their results are left out as well.
  const callsLeftOut = new Set<unknown>()
  const said = new Turns()
  for (const [n, value] of items.entries()) {
    const place = `input[${n}]`
    const item = resolved(objectAt(value, place), place, itemOf)
    const type = textAt(item['type'] ?? 'message', `${place}.type`)
    if (type === 'message') addMessage(said, item, place, leftOut)
    else if (type === 'reasoning') addReasoning(said, item, place, leftOut)
    else if (type === 'function_call') {
      const call = functionCall(item, place, functions)
      calls.add(call.id)
      const turn = said.ofAssistant()
      turn.tool_calls = [...(turn.tool_calls ?? []), call]
    } else if (type === 'function_call_output') {
      const { call_id: id } = item
      const isLeftOut = callsLeftOut.has(id) && !calls.has(id as string)
      said.add(...(isLeftOut ? [] : toolMessages(item, place, calls, leftOut)))
    } else {
      leaveOut('item', type, leftOut)
      if ('output' in item) said.add()
      else if (isGiven(item['call_id'])) callsLeftOut.add(item['call_id'])
    }
  }
  const own = said.messages.flatMap(withWords)
  if (own.length + earlier.length === 0) refuse('input', 'at least one message', input)
  // The instructions of an earlier response are not inherited.
  const system = instructions
    ? [{ role: 'system', content: textAt(instructions, 'instructions') }]
    : []
  return [...system, ...earlier, ...inOneForm(own)]
}

/** Servers accept an answer without a text only if it has calls. What says nothing at all is no message. */
function withWords(message: ChatMessage): ChatMessage[] {
  if (!isEmptyMessage(message)) return [message]
  const { reasoning_content: thinking, refusal } = message
  return thinking || refusal ? [{ ...message, content: '' }] : []
}

function resolved(item: WireObject, place: string, itemOf: ItemLookup): WireObject {
  if (item['type'] !== 'item_reference') return item
  const id = textAt(item['id'], `${place}.id`)
  return itemOf(id) ?? refuse(`${place}.id`, 'the id of an item that this rollout received', id)
}

/** Messages, of which one of the assistant has several items. */
class Turns {
  readonly messages: ChatMessage[] = []
  #open: ChatMessage | undefined

  /** The message of the assistant that the next item extends. */
  ofAssistant(): ChatMessage {
    if (this.#open !== undefined) return this.#open
    this.#open = { role: 'assistant', content: null }
    this.messages.push(this.#open)
    return this.#open
  }

  /** Ends the turn of the assistant, also where nothing of what follows it is left. */
  add(...messages: ChatMessage[]): void {
    this.#open = undefined
    this.messages.push(...messages)
  }
}

function addMessage(said: Turns, item: WireObject, place: string, leftOut: Set<string>): void {
  const { role, content } = item
  const at = `${place}.content`
  if (role === 'assistant') {
    const { text, refusal } = assistantText(content, at, leftOut)
    const turn = said.ofAssistant()
    if (text !== '') turn.content = `${(turn.content ?? '') as string}${text}`
    if (refusal !== '') turn.refusal = `${turn.refusal ?? ''}${refusal}`
  } else if (role === 'user') {
    said.add({ role, content: userContent(content, at, leftOut) })
  } else if (role === 'system' || role === 'developer') {
    said.add({ role: 'system', content: userContent(content, at, leftOut, textTypes) })
  } else {
    refuse(`${place}.role`, 'user, assistant, system or developer', role)
  }
}

function addReasoning(said: Turns, item: WireObject, place: string, leftOut: Set<string>): void {
  // The summary and its encrypted form were not written by the policy.
  const parts = partsOf(item['content'] ?? [], `${place}.content`, reasoningTypes, leftOut)
  const texts = parts.map(({ part, at }) => textAt(part['text'], `${at}.text`))
  const turn = said.ofAssistant()
  if (texts.length > 0) turn.reasoning_content = (turn.reasoning_content ?? '') + texts.join('')
}

function functionCall(item: WireObject, place: string, functions: FunctionNames): ChatToolCall {
  const name = textAt(item['name'], `${place}.name`)
  const namespace = isGiven(item['namespace'])
    ? textAt(item['namespace'], `${place}.namespace`)
    : undefined
  return {
    id: textAt(item['call_id'], `${place}.call_id`),
    type: 'function',
    function: {
      name: functions.flat(name, namespace),
      arguments: textAt(item['arguments'], `${place}.arguments`),
    },
  }
}

function toolMessages(
  item: WireObject,
  place: string,
  calls: ReadonlySet<string>,
  leftOut: Set<string>,
): ChatMessage[] {
  const id = textAt(item['call_id'], `${place}.call_id`)
  if (!calls.has(id)) refuse(`${place}.call_id`, 'the call_id of a function_call before it', id)
  const content = userContent(item['output'] ?? '', `${place}.output`, leftOut)
  if (typeof content === 'string') return [{ role: 'tool', tool_call_id: id, content }]
  const texts = content.filter(({ type }) => type === 'text').map(({ text }) => text)
  return [
    { role: 'tool', tool_call_id: id, content: texts.join('\n') },
    { role: 'user', content: content.filter(({ type }) => type !== 'text') },
  ]
}

/** Images of results stand after all results of the turn. */
function inOneForm(messages: readonly ChatMessage[]): ChatMessage[] {
  const ordered: ChatMessage[] = []
  let images: ChatContentPart[] = []
  const flush = (): void => {
    if (images.length > 0) ordered.push({ role: 'user', content: images })
    images = []
  }
  for (const [n, message] of messages.entries()) {
    const ofResult = messages[n - 1]?.role === 'tool' ? imagesOf(message) : undefined
    if (ofResult !== undefined) {
      images.push(...ofResult)
      continue
    }
    if (message.role !== 'tool') flush()
    ordered.push(message)
  }
  flush()
  return ordered
}

/** The parts of a user's message that has nothing but images. */
function imagesOf({ role, content }: ChatMessage): readonly ChatContentPart[] | undefined {
  if (role !== 'user' || !Array.isArray(content)) return undefined
  return content.every(({ type }) => type === 'image_url') ? content : undefined
}

const textTypes = ['input_text', 'output_text', 'text']
const userTypes = [...textTypes, 'input_image']
const assistantTypes = [...textTypes, 'refusal']
const reasoningTypes = ['reasoning_text', 'text']

function assistantText(
  content: unknown,
  place: string,
  leftOut: Set<string>,
): { text: string; refusal: string } {
  if (typeof content === 'string') return { text: content, refusal: '' }
  let text = ''
  let refusal = ''
  for (const { part, at } of partsOf(content, place, assistantTypes, leftOut)) {
    if (part['type'] === 'refusal') refusal += textAt(part['refusal'], `${at}.refusal`)
    else text += textAt(part['text'], `${at}.text`)
  }
  return { text, refusal }
}

/** One string for texts alone, a line each. */
function userContent(
  content: unknown,
  place: string,
  leftOut: Set<string>,
  types: readonly string[] = userTypes,
): string | ChatContentPart[] {
  if (typeof content === 'string') return content
  const parts = partsOf(content, place, types, leftOut).flatMap(
    ({ part, at }): ChatContentPart[] => {
      const { type, text, image_url: url, detail } = part
      if (type !== 'input_image') return [{ type: 'text', text: textAt(text, `${at}.text`) }]
      if (!isGiven(url)) {
        // It is among the files of OpenAI's servers.
        leaveOut('block', 'input_image of a file', leftOut)
        return []
      }
      const image = { url: textAt(url, `${at}.image_url`), ...given({ detail }) }
      return [{ type: 'image_url', image_url: image }]
    },
  )
  return parts.every(({ type }) => type === 'text')
    ? parts.map(({ text }) => text).join('\n')
    : parts
}

/** The parts of a content that are of these types; the others are left out. */
function partsOf(
  content: unknown,
  place: string,
  types: readonly string[],
  leftOut: Set<string>,
): { part: WireObject; at: string }[] {
  return listAt(content, place).flatMap((value, n) => {
    const at = `${place}[${n}]`
    const part = objectAt(value, at)
    const type = textAt(part['type'], `${at}.type`)
    if (types.includes(type)) return [{ part, at }]
    leaveOut('block', type, leftOut)
    return []
  })
}

function textSettings(text: unknown, leftOut: Set<string>): WireObject {
  if (!isGiven(text)) return {}
  const { format, ...others } = objectAt(text, 'text')
  for (const name of Object.keys(others)) leftOut.add(`text.${name}`)
  if (!isGiven(format)) return {}
  const { type, ...schema } = objectAt(format, 'text.format')
  switch (type) {
    case 'text':
      return {}
    case 'json_object':
      return { response_format: { type } }
    case 'json_schema':
      return { response_format: { type, json_schema: schema } }
    default:
      return refuse('text.format.type', 'text, json_object or json_schema', type)
  }
}

/** Functions in namespaces (Codex: those of sub-agents) under one name each, as chat completions need. */
export class FunctionNames {
  readonly #members = new Map<string, { readonly name: string; readonly namespace: string }>()

  flat(name: string, namespace: string | undefined): string {
    if (namespace === undefined) return name
    const flat = `${namespace}__${name}`
    this.#members.set(flat, { name, namespace })
    return flat
  }

  /** The name and namespace of a function that the policy calls. */
  split(flat: string): { readonly name: string; readonly namespace?: string } {
    return this.#members.get(flat) ?? { name: flat }
  }
}

function toolSettings(
  body: WireObject,
  functions: FunctionNames,
  leftOut: Set<string>,
): WireObject {
  const { tools, tool_choice: choice, parallel_tool_calls } = body
  const nested = nestedTools(tools ?? [], 'tools')
  const chosen = choiceSettings(choice)
  assertChoice(chosen['tool_choice'], nested)
  if (nested.length === 0) return {}
  return { tools: nested, ...given({ parallel_tool_calls }), ...chosen }

  function nestedTools(list: unknown, at: string, namespace?: string): WireObject[] {
    return listAt(list, at).flatMap((value, n) => {
      const place = `${at}[${n}]`
      const tool = objectAt(value, place)
      if (tool['type'] === 'function') return [nestedTool(tool, place, namespace)]
      if (tool['type'] === 'namespace' && namespace === undefined) {
        return nestedTools(tool['tools'], `${place}.tools`, textAt(tool['name'], `${place}.name`))
      }
      leaveOut('tool', tool['name'] ?? tool['type'], leftOut)
      return []
    })
  }

  function nestedTool(tool: WireObject, place: string, namespace: string | undefined): WireObject {
    const name = functions.flat(textAt(tool['name'], `${place}.name`), namespace)
    const { description, parameters, strict } = tool
    return { type: 'function', function: given({ name, description, parameters, strict }) }
  }
}

function choiceSettings(choice: unknown): WireObject {
  if (!isGiven(choice)) return {}
  if (choice === 'auto' || choice === 'none' || choice === 'required')
    return { tool_choice: choice }
  if (typeof choice !== 'object')
    return refuse('tool_choice', 'auto, none, required or a function', choice)
  const { type, name } = objectAt(choice, 'tool_choice')
  if (type !== 'function') refuse('tool_choice.type', 'function', type)
  return { tool_choice: { type, function: { name: textAt(name, 'tool_choice.name') } } }
}
