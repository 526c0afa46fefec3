import type { ChatContentPart, ChatMessage } from '@osmosis/core/policy'

/**
 * Messages of the SDK in the form that the policy wrote them in, so that a turn is recognised when
 * it comes back: one message per turn, with its refusal in the field of that name.
 */
export function toWireMessages(messages: readonly ChatMessage[]): ChatMessage[] {
  const wire: ChatMessage[] = []
  for (const message of messages) {
    const next = message.role === 'assistant' ? withRefusalField(message) : message
    const previous = wire.at(-1)
    if (previous && isTextOfTurn(previous) && isToolCallsOfTurn(next)) {
      wire[wire.length - 1] = { ...next, ...previous, ...toolCallsOf(next) }
    } else if (previous && isThinkingOfTurn(previous) && next.role === 'assistant') {
      wire[wire.length - 1] = { ...previous, ...next }
    } else {
      wire.push(next)
    }
  }
  return wire
}

// Up to 0.17.0 the SDK replays one turn as up to three messages: its thinking, its text, its tool
// calls. Two turns in a row without anything between them do not occur in a run.

function isThinkingOfTurn({ role, content, tool_calls, reasoning }: ChatMessage): boolean {
  return role === 'assistant' && content === null && !tool_calls?.length && Boolean(reasoning)
}

function isTextOfTurn({ role, content, tool_calls }: ChatMessage): boolean {
  return role === 'assistant' && content !== null && !tool_calls?.length
}

function isToolCallsOfTurn({ role, content, tool_calls }: ChatMessage): boolean {
  return role === 'assistant' && content === null && Boolean(tool_calls?.length)
}

function toolCallsOf({ tool_calls }: ChatMessage): Pick<ChatMessage, 'tool_calls'> {
  return tool_calls ? { tool_calls } : {}
}

function withRefusalField(message: ChatMessage): ChatMessage {
  const { content } = message
  if (!Array.isArray(content) || !content.some(isRefusal)) return message
  const refusal = content
    .filter(isRefusal)
    .map((part) => (typeof part['refusal'] === 'string' ? part['refusal'] : ''))
    .join('')
  const text = content.filter((part) => !isRefusal(part))
  return { ...message, content: text.length > 0 ? text : null, refusal }
}

function isRefusal({ type }: ChatContentPart): boolean {
  return type === 'refusal'
}
