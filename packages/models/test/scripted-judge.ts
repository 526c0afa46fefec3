import type { ChatMessage } from '@osmosis/core/policy'
import type { ChatModel } from '@osmosis/models'

export interface JudgeRequest {
  readonly messages: ChatMessage[]
  readonly [name: string]: unknown
}

type Reply = string | { readonly status: number; readonly message: string }

/** A judge with these replies, one after the other; the last one is repeated. */
export function judgeThat(
  ...replies: readonly Reply[]
): ChatModel & { readonly requests: JudgeRequest[] } {
  const requests: JudgeRequest[] = []
  return {
    name: 'judge',
    requests,
    async respond({ body }) {
      requests.push(body as unknown as JudgeRequest)
      const reply = replies[Math.min(requests.length, replies.length) - 1] ?? ''
      if (typeof reply !== 'string') {
        return Response.json({ error: { message: reply.message } }, { status: reply.status })
      }
      return Response.json({ choices: [{ message: { role: 'assistant', content: reply } }] })
    },
  }
}

export function textOf(message: ChatMessage | undefined): string {
  return typeof message?.content === 'string' ? message.content : ''
}

/** The word that delimits the parts of a request. */
export function secretOf(messages: readonly ChatMessage[]): string {
  return /carries the word (\w{32})/.exec(textOf(messages[0]))?.[1] ?? 'none'
}
