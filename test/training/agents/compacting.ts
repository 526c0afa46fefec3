import { requireRolloutContext } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import type { AskForCode } from './ask-for-code.ts'
import { readNoteTool } from './hand-written.ts'

/** Rewrites the question once the note was read, as an agent that compacts its history does. */
export const compacting: AskForCode = async (ctx, readNote) => {
  const policy = requireRolloutContext('the compacting loop').policy('sample')
  const messages = [...ctx.prompt] as ChatMessage[]
  const complete = async (): Promise<ChatMessage | undefined> => {
    const request = { messages, tools: [readNoteTool] }
    const { choices } = await policy.complete(request, { signal: ctx.signal })
    return choices[0]?.message
  }
  const first = await complete()
  if (first !== undefined) messages.push(first)
  const [call] = first?.tool_calls ?? []
  if (call === undefined) return messages
  messages.push({ role: 'tool', tool_call_id: call.id, content: readNote() })
  messages[0] = { role: 'user', content: 'What is the code of door 0?' }
  const second = await complete()
  return second === undefined ? messages : [...messages, second]
}
