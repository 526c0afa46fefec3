import type { ChatMessage } from '@osmosis/core/policy'

/** What a tiny policy reads and writes: a token's id is its place in this list. */
export const tinyTokens = [
  '<s>',
  '<system>',
  '<user>',
  '<assistant>',
  '<tool>',
  '<end>',
  '?',
  'a',
  'b',
  'c',
  'd',
  '<call>',
] as const

/** The ids that a tiny policy may say: a letter, or a call of its tool. */
export const sayableIds: readonly number[] = ['a', 'b', 'c', 'd', '<call>'].map(idOf)

/** The id of a call of the tool; nothing follows it in an answer. */
export const callId = idOf('<call>')

/**
 * A conversation as token ids, up to where the policy's answer begins. Words of the letters a to d are
 * their letters; whatever else is said at one place is one `?`. So an answer that comes back unchanged has the ids
 * it was sampled with, and each prompt of a conversation begins with the last one and its answer.
 */
export function renderPrompt(messages: readonly ChatMessage[]): number[] {
  const ids = messages.flatMap((message) => [
    idOf(`<${message.role}>`),
    ...textIds(message.content),
    ...(message.tool_calls ?? []).map(() => callId),
    idOf('<end>'),
  ])
  return [idOf('<s>'), ...ids, idOf('<assistant>')]
}

function textIds(content: ChatMessage['content']): number[] {
  const text =
    typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('')
  const words = text.match(/[^\s"]+/g) ?? []
  const read = words.flatMap((word) =>
    /^[a-d]+$/.test(word) ? Array.from(word, idOf) : [idOf('?')],
  )
  return read.filter((id, at) => id !== idOf('?') || read[at - 1] !== id)
}

function idOf(token: string): number {
  const id = (tinyTokens as readonly string[]).indexOf(token)
  return id === -1 ? tinyTokens.indexOf('?') : id
}
