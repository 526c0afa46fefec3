import { requireRolloutContext } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import type { AskForCode } from './ask-for-code.ts'
import { readNoteTool } from './hand-written.ts'

/**
 * Rewrites the question once the note was read, as an agent that compacts its history does, and ends each rollout
 * with a conversation that is the same for all: nothing can be learned from it.
 */
export const compacting: AskForCode = async (ctx, readNote) => {
  const policy = requireRolloutContext('the compacting loop').policy('sample')
  const { signal } = ctx
  const complete = async (): Promise<ChatMessage[]> => {
    const { choices } = await policy.complete({ messages, tools: [readNoteTool] }, { signal })
    return choices.map(({ message }) => message)
  }
  const messages = [...ctx.prompt] as ChatMessage[]
  const first = await complete()
  messages.push(...first)
  const [call] = first[0]?.tool_calls ?? []
  if (call !== undefined) {
    messages.push({ role: 'tool', tool_call_id: call.id, content: readNote() })
    messages[0] = { role: 'user', content: 'What is the code of door 0?' }
    messages.push(...(await complete()))
  }
  const farewell = { messages: [{ role: 'user', content: 'Say goodbye.' }], max_tokens: 1 }
  await policy.complete(farewell, { signal })
  return messages
}
