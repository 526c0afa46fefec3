import { isDeepStrictEqual } from 'node:util'

import type { AssistantMessage, ChatMessage, ChatToolCall } from './chat-completion.ts'

/**
 * An assistant message in the form that goes over the wire, when it is not one that the policy is
 * known to have written: text parts are joined to the plain string that chat templates expect, and
 * arguments that are not a JSON object become `{}`, because templates parse them again.
 */
export function toWireAssistant(message: ChatMessage): ChatMessage {
  const wire: ChatMessage = { ...message }
  const text = plainText(message.content)
  if (text !== undefined) wire.content = text
  if (typeof message.reasoning === 'string') wire.reasoning_content ??= message.reasoning
  if (message.tool_calls) wire.tool_calls = message.tool_calls.map(withObjectArguments)
  return wire
}

/**
 * Whether `echo` is the turn `said` after a framework carried it through its own data model:
 * arguments re-serialised, text in parts or dropped when it is nothing but white space, a refusal
 * among the text, thinking dropped or all but its end.
 *
 * @param ids - false: tool calls may have other ids, because the policy gave them none
 */
export function isEchoOf(said: AssistantMessage, echo: ChatMessage, ids = true): boolean {
  if (visibleText(echo) !== visibleText(said)) return false
  // The stream helper of the openai client keeps the last piece of fields that it does not know.
  if (!(thinking(said) ?? '').endsWith(thinking(echo) ?? '')) return false

  const saidCalls = said.tool_calls ?? []
  const echoCalls = echo.tool_calls ?? []
  return (
    saidCalls.length === echoCalls.length &&
    saidCalls.every((call, index) => isSameCall(call, echoCalls[index], ids))
  )
}

/** Whether an echo of a turn has all of its thinking. */
export function hasWholeThinking(said: AssistantMessage, echo: ChatMessage): boolean {
  return (thinking(said) ?? '') === (thinking(echo) ?? '')
}

/**
 * What a turn is looked up by: the ids of its tool calls, or its text when it has none. Different turns may
 * have the same.
 */
export function turnKey(message: ChatMessage): string {
  const { tool_calls: calls } = message
  if (calls && calls.length > 0) return calls.map(({ id }) => id).join(' ')
  // As it is: a copy of a long text costs more than the few turns that are found with it.
  return visibleText(message) ?? ''
}

function isSameCall(said: ChatToolCall, echo: ChatToolCall | undefined, ids: boolean): boolean {
  return (
    echo !== undefined &&
    (!ids || said.id === echo.id) &&
    said.function.name === echo.function.name &&
    isSameArguments(said.function.arguments, echo.function.arguments, ids)
  )
}

/** @param ids - whether the calls have the same id */
function isSameArguments(said: string, echo: unknown, ids: boolean): boolean {
  if (said === echo) return true
  const parsed = parseObject(said)
  const echoed = parseObject(echo)
  if (echoed === undefined) return false
  // Frameworks that cannot carry malformed arguments replace them: by an empty object, or by what can
  // be read of them.
  if (parsed === undefined) return ids || isDeepStrictEqual(echoed, {})
  return isDeepStrictEqual(parsed, echoed) || isDeepStrictEqual(jsonForm(parsed), jsonForm(echoed))
}

/** Writing it again is what turns `-0` into `0` and `1e999` into `null`. */
function jsonForm(value: object): unknown {
  return JSON.parse(JSON.stringify(value))
}

function withObjectArguments(call: ChatToolCall): ChatToolCall {
  const text: unknown = call.function.arguments
  if (typeof text === 'string' && parseObject(text)) return call
  const object = parseObject(text)
  const json = object ? JSON.stringify(object) : '{}'
  return { ...call, function: { ...call.function, arguments: json } }
}

function parseObject(value: unknown): object | undefined {
  let parsed = value
  if (typeof value === 'string') {
    try {
      parsed = JSON.parse(value)
    } catch {
      return undefined
    }
  }
  return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
    ? parsed
    : undefined
}

/**
 * What a message says, refusal included, '' when that is white space only; undefined when it has
 * parts that are no text.
 */
function visibleText({ content, refusal }: ChatMessage): string | undefined {
  const text = plainText(content ?? '')
  if (text === undefined) return undefined
  const said = text + (refusal ?? '')
  return said.trim() === '' ? '' : said
}

function thinking({ reasoning_content, reasoning }: ChatMessage): string | undefined {
  return reasoning_content || reasoning
}

/** The text of a content that is nothing but text; undefined for null and for other parts. */
function plainText(content: ChatMessage['content']): string | undefined {
  if (typeof content === 'string') return content
  if (!Array.isArray(content) || content.length === 0) return undefined
  if (!content.every((part) => part.type === 'text')) return undefined
  return content.map((part) => part.text ?? '').join('')
}
