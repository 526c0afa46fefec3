import { isJsonObject } from '../../../http/json.ts'
import type { ChatCompletionChunk, ChatDelta, ChatToolCallDelta } from '../../chat-completion.ts'
import { phrases } from './words.ts'

/** Texts of an answer, under their names in a delta. */
export const texts = ['content', 'refusal', 'reasoning', 'reasoning_content'] as const

export const textNames: ReadonlySet<string> = new Set(texts)

/** What is read of a delta by its meaning; other fields go back to the policy as they are. */
export const knownFields: ReadonlySet<string> = new Set([...texts, 'role', 'tool_calls'])

/** Whether a delta has text or calls. */
export function saysSomething(delta: ChatDelta): boolean {
  for (const key of texts) if (delta[key]) return true
  return Boolean(delta.tool_calls?.length)
}

/** Fields of nearly every chunk, of its choices and deltas. Servers report no failures in them. */
export const ordinaryFields = phrases(
  `${[...knownFields].join(', ')}, choices, created, id, model, object, system_fingerprint, usage, index, delta, finish_reason, logprobs, token_ids`,
)

interface Sent {
  readonly [key: string]: unknown
}

/** Whether the arguments of a call, which are text, were parsed by its server. */
export function isParsed({ function: called }: ChatToolCallDelta): boolean {
  return typeof called?.arguments === 'object' && called.arguments !== null
}

/** Whether a chunk is one in the middle of an answer, as OpenAI streams it. Nearly all are, and are spared everything else. */
export function isOrdinary(chunk: ChatCompletionChunk): boolean {
  const { choices, object } = chunk
  if (object !== 'chat.completion.chunk' || !hasOnly(chunk, ordinaryFields)) return false
  const choice: unknown = Array.isArray(choices) && choices.length === 1 ? choices[0] : undefined
  if (!isJsonObject(choice) || !hasOnly(choice, ordinaryFields)) return false
  const { index, delta, finish_reason: reason, logprobs } = choice
  if (index !== 0 || reason || !isJsonObject(delta) || !areLogprobs(logprobs)) return false
  for (const key in delta) {
    const said = delta[key]
    const isRead =
      key === 'tool_calls' ? isListOf(said, isPlainCall) : textNames.has(key) && isText(said)
    if (!isRead) return false
  }
  return true
}

function isPlainCall(call: unknown): boolean {
  return isCall(call) && !isParsed(call as ChatToolCallDelta)
}

function hasOnly(part: object, names: ReadonlySet<string>): boolean {
  for (const key in part) if (!names.has(key)) return false
  return true
}

/**
 * Whether what is read of the choices of a chunk has the types of chat completions, or is null or missing. A list of parts in
 * the place of a text, for example, must not become an empty answer.
 */
export function areChoices(choices: unknown): boolean {
  return isListOf(choices, isChoice)
}

function isChoice(choice: unknown): boolean {
  if (!isJsonObject(choice)) return false
  const { delta, message, finish_reason: reason, logprobs } = choice
  return (
    isNoneOr(delta, isDelta) &&
    isNoneOr(message, isDelta) &&
    isNoneOr(reason, isText) &&
    areLogprobs(logprobs)
  )
}

function areLogprobs(logprobs: unknown): boolean {
  return isNoneOr((logprobs as Sent | null | undefined)?.['content'], Array.isArray)
}

function isDelta(delta: unknown): boolean {
  if (!isJsonObject(delta)) return false
  for (const key of texts) if (!isNoneOr(delta[key], isText)) return false
  const { tool_calls: calls } = delta
  return !calls || isListOf(calls, isCall)
}

function isCall(call: unknown): boolean {
  if (!isJsonObject(call)) return false
  const { index, id, function: called } = call
  return isNoneOr(index, isPlace) && isNoneOr(id, isText) && isNoneOr(called, isFunction)
}

/** Some servers parse the arguments that the policy wrote, and send what they mean. */
function isFunction(called: unknown): boolean {
  if (!isJsonObject(called)) return false
  const { name, arguments: written } = called
  return isNoneOr(name, isText) && (typeof written === 'object' || isNoneOr(written, isText))
}

function isListOf(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isItem)
}

function isNoneOr(value: unknown, is: (value: unknown) => boolean): boolean {
  return value === undefined || value === null || is(value)
}

function isText(value: unknown): boolean {
  return typeof value === 'string'
}

function isPlace(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 0
}
