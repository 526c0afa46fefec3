import { isJsonObject, parseJson } from '../http/json.ts'
import { lastAssistantText } from './last-assistant-text.ts'
import { blocksOf, callsOf, isCall, isFields, isResult } from './message-blocks.ts'

/** Options of {@link lastAssistantObject}. */
export interface AnswerObjectOptions {
  /** The name of the tool with which a framework asks for the object. Default: any. */
  readonly tool?: string
}

/**
 * The object in which a sample of any framework ends, where its program asked for structured output: the arguments of the
 * tool call in the last answer, as Strands and LangChain ask for objects, or else the JSON object that is its text.
 * Null when the last answer has neither, and when a framework or a limit ended the sample, because then users get
 * nothing. A program that returns its object from `run()` needs none of this: it is `ctx.output` of its grader.
 */
export function lastAssistantObject(
  sample: {
    readonly messages: readonly unknown[]
    readonly trajectoryMessages?: readonly unknown[] | null
    readonly extraFields?: Readonly<Record<string, unknown>>
  },
  { tool }: AnswerObjectOptions = {},
): Record<string, unknown> | null {
  const { messages, trajectoryMessages, extraFields = {} } = sample
  if ('model_error' in extraFields || 'limit_reached' in extraFields) return null
  const calls = lastCalls(trajectoryMessages ?? messages)
  if (calls.length === 0) return asObject(parseJson(lastAssistantText(sample)))
  const call = calls.findLast(({ name }) => tool === undefined || name === tool)
  if (call === undefined) return null
  return asObject(typeof call.given === 'string' ? parseJson(call.given) : call.given)
}

/** The tool calls of the last answer, with whose results a conversation may end. */
function lastCalls(messages: readonly unknown[]): ReturnType<typeof callsOf> {
  let items: ReturnType<typeof callsOf> = []
  for (const message of messages.toReversed()) {
    if (!isFields(message)) continue
    const { role } = message
    if (role === 'assistant' || role === 'model') return [...callsOf(message), ...items]
    if (role === undefined && isCall(message)) items = [...callsOf(message), ...items]
    else if (items.length > 0) return items
    else if (![message, ...blocksOf(message)].some(isResult)) return []
  }
  return items
}

function asObject(value: unknown): Record<string, unknown> | null {
  return isJsonObject(value) ? { ...value } : null
}
