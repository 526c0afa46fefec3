import {
  isFields,
  type StepLike,
  textOf,
  type ToolCallLike,
  type ToolResultLike,
} from './trajectory-shape.ts'

/** A tool call of a step and what came back. */
export interface AnsweredToolCall {
  readonly call: ToolCallLike
  /** Undefined when nothing came back. */
  readonly result: ToolResultLike | undefined
  readonly failed: boolean
}

/**
 * The tool calls of a step, each with its result. Results that name no call belong to the calls without
 * one, in their order.
 */
export function answeredCalls({ tool_calls: calls, observation }: StepLike): AnsweredToolCall[] {
  const results = observation?.results ?? []
  const unnamed = results.filter(({ source_call_id: id }) => id === null || id === undefined)
  return (calls ?? []).map((call) => {
    const named = results.find(({ source_call_id: id }) => id === call.tool_call_id)
    const result = named ?? unnamed.shift()
    return { call, result, failed: result !== undefined && isToolError(result) }
  })
}

/** `An error occurred while running the tool` is what the OpenAI Agents SDK tells a model. */
const errorText = /^\s*(?:error\b|traceback\b|an error occurred while running the tool\b)/i

/**
 * Whether a tool failed: its framework flagged the result, the text starts as errors and tracebacks do,
 * or it is a JSON object with an `error`.
 */
export function isToolError({ content, extra }: ToolResultLike): boolean {
  if (extra?.['error'] === true || extra?.['is_error'] === true) return true
  const text = textOf(content)
  if (errorText.test(text)) return true
  // Parsing every long result would cost more than the rest of the facts.
  if (!/^\s*\{/.test(text) || !text.includes('"error"')) return false
  try {
    const parsed: unknown = JSON.parse(text)
    const error = isFields(parsed) ? parsed['error'] : null
    return error !== null && error !== undefined && error !== false && error !== ''
  } catch {
    return false
  }
}
