/**
 * What stands in the place of a tool call that the token limit cut off, as in Strands for Python:
 * the call is not executed, and endpoints refuse a conversation with calls that have no results.
 */
export function incompleteCallNote(toolName: string): string {
  return `The selected tool ${toolName || '<unknown>'}'s tool use was incomplete due to maximum token limits being reached.`
}
