import type { ChatMessage } from './chat-completion.ts'
import type { CallLog, PolicyCall } from './call-log.ts'
import { messagesUpTo, pathTo } from './conversation-tree.ts'

/** What went over the wire under one sample id, in chat completions form. */
export interface WireTranscript {
  /** The conversation of the latest call, ending with its answer when there was one. */
  readonly messages: ChatMessage[]
  /** Other conversations of the sample, oldest first: rewritten histories, sub-agents, repeated sampling. */
  readonly otherConversations: ChatMessage[][]
  /** Whether some call did not simply continue a conversation. */
  readonly historyRewritten: boolean
  readonly calls: readonly PolicyCall[]
}

/** The transcript of a call log; undefined when no call was made. */
export function wireTranscript(log: CallLog): WireTranscript | undefined {
  const ends = log.conversationEnds()
  const latest = ends.at(-1)
  if (latest === undefined) return undefined
  const path = pathTo(latest)
  const calls = log.calls.map(({ end, settled }): PolicyCall => {
    const place = end.depth - 1
    // A call that failed ends with its request.
    const isIn = settled.error === null && path[place] === end
    return { ...settled, answerIndex: isIn ? place : null }
  })
  return {
    messages: messagesUpTo(latest),
    otherConversations: ends.slice(0, -1).map(messagesUpTo),
    historyRewritten: calls.some(({ extendsPrevious }) => !extendsPrevious),
    calls,
  }
}
