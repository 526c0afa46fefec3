import { pythonJson } from './python-text.ts'

/** A message that answers a tool call, in chat completions form. */
export type ToolResultMessage = {
  role: 'tool'
  content: string
  tool_call_id: string
}

/** The message with the result of a tool. See `serializeToolResult` for values that are not text. */
export function createToolResult(toolCallId: string, content: string): ToolResultMessage {
  return { role: 'tool', content, tool_call_id: toolCallId }
}

/** The message that reports to the policy why a tool has no result: `Error: <message>`. */
export function createToolErrorResult(toolCallId: string, message: string): ToolResultMessage {
  const result = createToolResult(toolCallId, `Error: ${message}`)
  errorResults.add(result)
  return result
}

const errorResults = new WeakSet<object>()

/** True for messages of {@link createToolErrorResult}. */
export function isToolErrorResult(result: unknown): boolean {
  return typeof result === 'object' && result !== null && errorResults.has(result)
}

/** Options of {@link serializeToolResult}. */
export interface SerializeToolResultOptions {
  /**
   * `python` (default): spaces and escapes as the Python SDK writes them, because the text reaches the policy
   * and becomes part of what it is trained on. `json`: what `JSON.stringify` writes.
   */
  style?: 'python' | 'json' | undefined
}

/**
 * The text of a tool's result. Strings are unchanged; null and undefined become `null`; lists and objects become
 * JSON in the chosen style, and numbers are as `JSON.stringify` writes them in both.
 *
 * @throws TypeError for values without a JSON form
 */
export function serializeToolResult(
  result: unknown,
  { style = 'python' }: SerializeToolResultOptions = {},
): string {
  if (typeof result === 'string') return result
  if (result === undefined) return 'null'
  if (style === 'python') return pythonJson(result)
  const text = JSON.stringify(result) as string | undefined
  if (text === undefined) throw new TypeError(`a ${typeof result} has no JSON form`)
  return text
}
