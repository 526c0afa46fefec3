import type { Message } from '@strands-agents/sdk'

import type { TurnMemory } from './turn-memory.ts'

/**
 * A conversation in the JSON form of Strands: `{ role, content: [{ text } | { toolUse } |
 * { toolResult } | { reasoning } | …] }`. System messages of the prompt, which Strands keeps
 * elsewhere or as a user's, are among them with their own role.
 */
export function toNativeMessages(
  messages: readonly Message[],
  system: string | undefined,
  memory: TurnMemory | undefined,
): unknown[] {
  const native = messages.map((message) => {
    const { role, content } = message.toJSON()
    const [given] = memory?.promptOf(message) ?? []
    return {
      role: given?.role === 'developer' || given?.role === 'system' ? given.role : role,
      content,
    }
  })
  return system === undefined
    ? native
    : [{ role: 'system', content: [{ text: system }] }, ...native]
}
