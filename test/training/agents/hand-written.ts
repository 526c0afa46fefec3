import { requireRolloutContext } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import { longestConversation, type AskForCode, toolName, toolText } from './ask-for-code.ts'

export const readNoteTool = {
  type: 'function',
  function: {
    name: toolName,
    description: toolText,
    parameters: { type: 'object', properties: {}, additionalProperties: false },
  },
}

/** A loop of one's own over the policy client; what it returns is the sample. */
export const handWritten: AskForCode = async (ctx, readNote) => {
  const policy = requireRolloutContext('the hand-written loop').policy('sample')
  const messages = [...ctx.prompt] as ChatMessage[]
  for (let turn = 0; turn < longestConversation; turn += 1) {
    const { choices } = await policy.complete(
      { messages, tools: [readNoteTool] },
      { signal: ctx.signal },
    )
    const message = choices[0]?.message
    if (message === undefined) break
    messages.push(message)
    const calls = message.tool_calls ?? []
    if (calls.length === 0) break
    messages.push(
      ...calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: readNote() })),
    )
  }
  return messages
}
