import { type SystemPrompt, type SystemPromptData, TextBlock } from '@strands-agents/sdk'

/**
 * The agent's own system prompt followed by that of the row, as one: many chat templates allow a
 * single system message, at the beginning. What is already at its end is not added again.
 */
export function mergedSystemPrompt<T extends SystemPrompt | SystemPromptData>(
  own: T | undefined,
  ofRow: string,
): T | string {
  if (own === undefined || own.length === 0) return ofRow
  const addition = `\n\n${ofRow}`
  if (typeof own === 'string') {
    return own === ofRow || own.endsWith(addition) ? own : `${own}${addition}`
  }
  const blocks: readonly object[] = own
  const last = blocks.at(-1)
  if (last !== undefined && 'text' in last && last.text === addition) return own
  return [...blocks, new TextBlock(addition)] as T
}
