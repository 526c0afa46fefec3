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
