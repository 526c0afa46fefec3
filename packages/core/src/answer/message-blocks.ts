/** MessageFields of a message, item or block of any framework. */
export type MessageFields = Readonly<Record<string, unknown>>

export function isFields(value: unknown): value is MessageFields {
  return typeof value === 'object' && value !== null
}

/** The blocks of a message of any framework. */
export function blocksOf({ parts, content = parts }: MessageFields): MessageFields[] {
  return Array.isArray(content) ? content.filter((block) => isFields(block)) : []
}

export function callsTools(message: MessageFields): boolean {
  const { tool_calls: calls } = message
  return (Array.isArray(calls) && calls.length > 0) || blocksOf(message).some(isCall)
}

/** Its type is `tool-call`, `toolCall`, `function_call` and the like, or its key names it. */
export function isCall(block: MessageFields): boolean {
  const isNamed = 'toolUse' in block || 'functionCall' in block
  return isNamed || /call$|^tool_use$/i.test(String(block['type']))
}

export function isResult(block: MessageFields): boolean {
  const isNamed = 'toolResult' in block || 'functionResponse' in block
  const isTool = block['role'] === 'tool' || block['role'] === 'toolResult'
  return isNamed || isTool || /(?:result|output)$/.test(String(block['type']))
}

/** The tool calls of a message or item of any framework, in order. */
export function callsOf(message: MessageFields): CallFields[] {
  const { tool_calls: calls } = message
  const own = Array.isArray(calls) ? calls.filter((call) => isFields(call)) : []
  const item = message['role'] === undefined && isCall(message) ? [message] : []
  return [...own, ...blocksOf(message).filter(isCall), ...item].map(callFields)
}

/** The results of tools in a message or item of any framework, in order. */
export function resultsOf(message: MessageFields): ResultFields[] {
  const blocks = blocksOf(message).filter(isResult)
  const results = blocks.length === 0 && isResult(message) ? [message] : blocks
  return results.map((result) => {
    const inner = innerOf(result, ['toolResult', 'functionResponse'])
    const { content, output = content, result: value = output, response = value } = inner
    return { id: idOf(result, inner), name: nameOf(inner), text: textOfResult(response) }
  })
}

/** A tool call of any framework. */
interface CallFields {
  readonly id: string | null
  /** '' where the framework gives none. */
  readonly name: string
  /** A text of JSON, or the value of one. */
  readonly given: unknown
}

/** A result of a tool, in any framework. */
interface ResultFields extends Pick<CallFields, 'id' | 'name'> {
  readonly text: string
}

function callFields(call: MessageFields): CallFields {
  const inner = innerOf(call, ['function', 'toolUse', 'functionCall'])
  const { arguments: text, input = text, args = input } = inner
  return { id: idOf(call, inner), name: nameOf(inner), given: args }
}

/** Where a block has its fields: in most forms itself, else under a key. */
function innerOf(block: MessageFields, keys: readonly string[]): MessageFields {
  return keys.map((key) => block[key]).find((one) => isFields(one)) ?? block
}

function nameOf({ name, toolName = name }: MessageFields): string {
  return typeof toolName === 'string' ? toolName : ''
}

const idNames = [
  'call_id',
  'tool_call_id',
  'toolCallId',
  'toolUseId',
  'tool_use_id',
  'callId',
  'id',
]

function idOf(...places: readonly MessageFields[]): string | null {
  const ids = idNames.flatMap((name) => places.map((place) => place[name]))
  return ids.find((id) => typeof id === 'string') ?? null
}

function textOfResult(value: unknown): string {
  if (typeof value === 'string') return value
  if (isFields(value) && value['type'] === 'text')
    return textOfResult(value['value'] ?? value['text'])
  const texts = Array.isArray(value) ? value.map((one) => isFields(one) && one['text']) : []
  if (texts.length > 0 && texts.every((text) => typeof text === 'string')) return texts.join('')
  return JSON.stringify(value) ?? ''
}
