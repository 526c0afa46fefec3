/** A message that answers a tool call, in chat completions form. */
export type ToolResultMessage = {
  role: 'tool'
  content: string
  tool_call_id: string
}

/** The message that carries the result of a tool. See `serializeToolResult` for other values. */
export function createToolResult(toolCallId: string, content: string): ToolResultMessage {
  return { role: 'tool', content, tool_call_id: toolCallId }
}

/** The message that tells the policy why a tool gave no result: `Error: <message>`. */
export function createToolErrorResult(toolCallId: string, message: string): ToolResultMessage {
  return createToolResult(toolCallId, `Error: ${message}`)
}
