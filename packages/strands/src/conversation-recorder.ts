import type { Message } from '@strands-agents/sdk'

/**
 * Follows the messages of an agent and keeps every conversation, also those that Strands resets
 * (agents used as tools, nodes of a graph) or trims (conversation managers).
 */
export class ConversationRecorder {
  readonly #finished: (readonly Message[])[] = []
  /** The latest conversation, without the turns that Strands left out. */
  #followed: readonly Message[] = []
  /** Turns of the policy that Strands left out, and how many of its messages come before each. */
  #leftOut: { readonly turn: Message; readonly at: number }[] = []
  #pending: Message | undefined

  /** Takes in the messages that the agent has now. */
  follow(messages: readonly Message[]): void {
    const same = commonLength(this.#followed, messages)
    if (same === this.#followed.length) {
      this.#placePending(messages)
      this.#followed = [...messages]
    } else if (same < messages.length) {
      if (hasAnswer(this.#current)) this.#finished.push(this.#current)
      this.#followed = [...messages]
      this.#leftOut = []
      if (this.#pending && messages.includes(this.#pending)) this.#pending = undefined
    }
    // Else it was reset to its beginning, and nothing was said since.
  }

  /**
   * Notes what the policy said, before Strands has it among the messages: it gets there when its
   * tools are done, and never when the run ends before.
   */
  notePending(message: Message | undefined): void {
    this.#pending = message
  }

  /** Keeps a turn that Strands dropped, e.g. because its run was cancelled, at its place. */
  leavePending(): void {
    if (this.#pending) this.#leftOut.push({ turn: this.#pending, at: this.#followed.length })
    this.#pending = undefined
  }

  /**
   * All conversations, the one that counts last: the latest in which the policy said something.
   *
   * @param messages - what the agent has in the end; taken in when it only adds to what is known
   */
  conversations(messages: readonly Message[]): (readonly Message[])[] {
    if (commonLength(this.#followed, messages) === this.#followed.length) this.follow(messages)
    const latest = this.#pending ? [...this.#current, this.#pending] : this.#current
    if (hasAnswer(latest) || this.#finished.length === 0) return [...this.#finished, latest]
    return latest.length === 0 ? this.#finished : [latest, ...this.#finished]
  }

  get #current(): readonly Message[] {
    return this.#leftOut.reduceRight<readonly Message[]>(
      (messages, { turn, at }) => messages.toSpliced(at, 0, turn),
      this.#followed,
    )
  }

  /** Messages that come where a turn was expected, such as a note of Strands, come behind it. */
  #placePending(messages: readonly Message[]): void {
    if (messages.length > this.#followed.length) this.leavePending()
    // A turn whose tools were interrupted is among the messages after all when it is resumed.
    const added = messages.slice(this.#followed.length)
    this.#leftOut = this.#leftOut.filter(({ turn }) => !added.some((one) => isSame(one, turn)))
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
