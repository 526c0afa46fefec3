import type { Message } from '@strands-agents/sdk'

/**
 * Follows the messages of an agent and keeps every conversation, also those that Strands resets
 * (agents used as tools, nodes of a graph) or trims (conversation managers).
 */
export class ConversationRecorder {
  readonly #finished: (readonly Message[])[] = []
  #current: readonly Message[] = []
  #pending: Message | undefined

  /** Takes in the messages that the agent has now. */
  follow(messages: readonly Message[]): void {
    if (this.#pending && messages.includes(this.#pending)) this.#pending = undefined
    const same = commonLength(this.#current, messages)
    if (same === this.#current.length) {
      this.#current = [...messages]
    } else if (same < messages.length) {
      if (hasAnswer(this.#current)) this.#finished.push(this.#current)
      this.#current = [...messages]
    }
    // Else it was reset to its beginning, and nothing was said since.
  }

  /**
   * Notes what the policy said, before Strands has it among the messages: it gets there when its
   * tools are done, and never when that does not come about.
   */
  notePending(message: Message | undefined): void {
    this.#pending = message
  }

  /**
   * All conversations, the one that counts last: the latest in which the policy said something.
   *
   * @param messages - what the agent has in the end; taken in when it only adds to what is known
   */
  conversations(messages: readonly Message[]): (readonly Message[])[] {
    if (commonLength(this.#current, messages) === this.#current.length) this.follow(messages)
    const latest = this.#pending ? [...this.#current, this.#pending] : this.#current
    if (hasAnswer(latest) || this.#finished.length === 0) return [...this.#finished, latest]
    return latest.length === 0 ? this.#finished : [latest, ...this.#finished]
  }
}

function hasAnswer(messages: readonly Message[]): boolean {
  return messages.some(({ role }) => role === 'assistant')
}

function commonLength(a: readonly Message[], b: readonly Message[]): number {
  const shorter = Math.min(a.length, b.length)
  for (let index = 0; index < shorter; index += 1) {
    if (!isSame(a[index], b[index])) return index
  }
  return shorter
}

/** Snapshots bring back copies, so identity alone does not tell. */
function isSame(a: Message | undefined, b: Message | undefined): boolean {
  return (
    a === b || (a?.role === b?.role && JSON.stringify(a?.content) === JSON.stringify(b?.content))
  )
}
