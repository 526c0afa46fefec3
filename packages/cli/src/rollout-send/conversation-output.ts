import { messageLines } from '../agent-loop/message-lines.ts'
import { oneLine } from '../agent-loop/outcome-text.ts'
import type { PolicyListener } from './overheard-policy.ts'

/**
 * Shows conversations as they go on, a line or more for each message. Where several go on at once, a
 * line says whose the next ones are.
 */
export function conversationOutput(output: {
  readonly conversation: (line: string) => void
  readonly warning: (line: string) => void
}): PolicyListener {
  const shown = new Map<string, number>()
  let latest: string | undefined

  function show(sampleId: string, messages: Parameters<typeof messageLines>[0]): void {
    const lines = messageLines(messages)
    const before = shown.get(sampleId) ?? 0
    // A conversation that has become shorter was rewritten: all of it is new.
    const next = lines.slice(before > lines.length ? 0 : before)
    shown.set(sampleId, lines.length)
    if (next.length === 0) return
    if (latest !== undefined && latest !== sampleId) output.conversation(`--- ${sampleId}`)
    latest = sampleId
    for (const line of next) output.conversation(line)
  }
  return {
    onCall: show,
    onAnswer: show,
    onRefusal: (status, text) =>
      output.warning(`The policy gave no answer (${status}): ${oneLine(text)}`),
  }
}
