import { isDeepStrictEqual } from 'node:util'

import { isJsonObject } from '../http/json.ts'
import { argumentsObject, nameForAgent } from './answer/malformed-calls.ts'
import type { AssistantMessage, ChatMessage, ChatToolCall } from './chat-completion.ts'

/**
 * The wire form of an assistant message that is not an echo of a recorded answer: text parts are joined to
 * the plain string that chat templates expect, and arguments that are not a JSON object become `{}`, because
 * templates parse them.
 */
export function toWireAssistant(message: ChatMessage): ChatMessage {
  const wire: ChatMessage = { ...message }
  const text = plainText(message.content)
  if (text !== undefined) wire.content = text
  if (typeof message.reasoning === 'string') wire.reasoning_content ??= message.reasoning
  if (Array.isArray(message.tool_calls))
    wire.tool_calls = message.tool_calls.map(withObjectArguments)
  return wire
}

/**
 * Whether `echo` is the recorded `answer` as a framework sends it back: with re-serialised arguments, text
 * in parts or without white space around it, a refusal within the text, without its thinking or with
 * only the end of it.
 *
 * @param ids - false: tool calls may have other ids, because the policy gave them none
 */
export function isEchoOf(answer: AssistantMessage, echo: ChatMessage, ids = true): boolean {
  if (visibleText(echo) !== visibleText(answer)) return false
  // The stream helper of the openai client keeps the last piece of fields that it does not know.
  if (!(thinking(answer) ?? '').endsWith(thinking(echo) ?? '')) return false

  const answerCalls = answer.tool_calls ?? []
  const echoCalls = echo.tool_calls ?? []
  return (
    answerCalls.length === echoCalls.length &&
    answerCalls.every((call, index) => isSameCall(call, echoCalls[index], ids))
  )
}

/** Whether an echo of an answer has all of its thinking, and the white space around its text. */
export function isWholeEcho(answer: AssistantMessage, echo: ChatMessage): boolean {
  return (
    (thinking(answer) ?? '') === (thinking(echo) ?? '') && wholeText(answer) === wholeText(echo)
  )
}

/** The lookup key of an answer: the ids of its tool calls, or else its text. Different answers may share one. */
export function turnKey(message: ChatMessage): string {
  const { tool_calls: calls } = message
  if (Array.isArray(calls) && calls.length > 0)
    return calls.map((call: ChatToolCall | null) => call?.id).join(' ')
  return visibleText(message) ?? ''
}

/** The message with the arguments that its calls have in the prompt. */
export function asWritten(message: ChatMessage, prompt: readonly ChatMessage[]): ChatMessage {
  if (!Array.isArray(message.tool_calls) || prompt.length === 0) return message
  // Prompts are data of users.
  const written = prompt
    .flatMap(({ tool_calls: calls }) => (Array.isArray(calls) ? calls : []))
    .filter((call) => hasFunction(call) && typeof call.function.arguments === 'string')
  const calls = message.tool_calls.map((call) => {
    const own = written.find((one) => isSameCall(one, call, true))
    if (own === undefined) return call
    return { ...call, function: { ...call.function, arguments: own.function.arguments } }
  })
  return { ...message, tool_calls: calls }
}

/** @param ids - false: the calls may have other ids */
function isSameCall(call: ChatToolCall, echo: ChatToolCall | undefined, ids: boolean): boolean {
  return (
    hasFunction(echo) &&
    (!ids || call.id === echo.id) &&
    isSameName(call.function, echo.function.name) &&
    isSameArguments(call.function.arguments, echo.function.arguments, ids)
  )
}

function isSameName({ name, arguments: written }: ChatToolCall['function'], echo: string): boolean {
  return name === echo || nameForAgent(name, written) === echo
}

/** @param ids - whether the calls have the same id */
function isSameArguments(written: string, echo: unknown, ids: boolean): boolean {
  if (written === echo) return true
  const parsed = parseObject(written)
  const echoed = parseObject(echo)
  // Frameworks replace malformed arguments by an empty object, by what they can parse of them, or by a text of them.
  if (parsed === undefined) return ids || isDeepStrictEqual(echoed, {})
  // They refuse keys that could change prototypes.
  if (ids && /"(?:__proto__|constructor)"/.test(written)) return true
  if (echoed === undefined) return false
  return isDeepStrictEqual(parsed, echoed) || isDeepStrictEqual(jsonForm(parsed), jsonForm(echoed))
}

/** Re-serialising turns `-0` into `0` and `1e999` into `null`. */
function jsonForm(value: object): unknown {
  return JSON.parse(JSON.stringify(value))
}

/** False for calls of other forms, such as those of custom tools, and for what is no call: the policy gets them as they are. */
export function hasFunction(call: ChatToolCall | null | undefined): call is ChatToolCall {
  return isJsonObject(call?.function)
}

function withObjectArguments(call: ChatToolCall): ChatToolCall {
  if (!hasFunction(call)) return call
  const text: unknown = call.function.arguments
  if (typeof text === 'string' && parseObject(text)) return call
  const object = parseObject(text)
  const json = object ? JSON.stringify(object) : '{}'
  return { ...call, function: { ...call.function, arguments: json } }
}

function parseObject(value: unknown): object | undefined {
  return argumentsObject(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))
}

/**
 * The text of a message, refusal included, without the white space around it, which some clients drop; undefined
 * when it has other parts than text.
 */
export function visibleText(message: ChatMessage): string | undefined {
  return wholeText(message)?.trim()
}

function wholeText({ content, refusal }: ChatMessage): string | undefined {
  const text = plainText(content ?? '')
  return text === undefined ? undefined : text + (refusal ?? '')
}

function thinking({ reasoning_content, reasoning }: ChatMessage): string | undefined {
  return reasoning_content || reasoning
}

/** The text of a content that has only text; undefined for null and for other parts. */
function plainText(content: ChatMessage['content']): string | undefined {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return undefined
  if (!content.every((part) => part.type === 'text')) return undefined
  return content.map((part) => part.text ?? '').join('')
}
