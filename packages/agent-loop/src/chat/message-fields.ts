import type { ChatMessage } from '@osmosis/core/policy'

/** The tool calls of a message; empty when it has no list of them. */
export function parseToolCalls(message: Pick<ChatMessage, 'tool_calls'>): unknown[] {
  const calls: unknown = message.tool_calls
  return Array.isArray(calls) ? (calls as unknown[]) : []
}

/** The content of a message if that is text, else an empty string. */
export function getMessageContent(message: Readonly<Record<string, unknown>>): string {
  const { content } = message
  return typeof content === 'string' ? content : ''
}

/** The role of a message; `unknown` when it has none. */
export function getMessageRole(message: Readonly<Record<string, unknown>>): string {
  const { role } = message
  return typeof role === 'string' ? role : 'unknown'
}

export function isAssistantMessage(message: Readonly<Record<string, unknown>>): boolean {
  return getMessageRole(message) === 'assistant'
}

export function isToolMessage(message: Readonly<Record<string, unknown>>): boolean {
  return getMessageRole(message) === 'tool'
}

export function isUserMessage(message: Readonly<Record<string, unknown>>): boolean {
  return getMessageRole(message) === 'user'
}

/** The number of messages of each role. */
export function countMessagesByRole(
  messages: readonly Readonly<Record<string, unknown>>[],
): Record<string, number> {
  const counts = new Map<string, number>()
  for (const message of messages) {
    const role = getMessageRole(message)
    counts.set(role, (counts.get(role) ?? 0) + 1)
  }
  return Object.fromEntries(counts)
}

/**
 * The text of the last assistant message: empty when it only calls tools, null when there is no
 * assistant message. For rewards and logs.
 */
export function getLastAssistantContent(
  messages: readonly Readonly<Record<string, unknown>>[],
): string | null {
  const last = messages.findLast(isAssistantMessage)
  return last === undefined ? null : getMessageContent(last)
}

/** The fields of an object; none of any other value. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {}
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
