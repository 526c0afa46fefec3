import { type MessageNode, pathTo } from './conversation-tree.ts'
import type { CallUse } from './policy-wire.ts'

/** What is known of a model call when its success or failure is noted. */
interface EndedCall {
  /** The last message of its request; of an answered call, the answer. */
  readonly end: MessageNode
  readonly about: CallUse
  /** As {@link FailedCalls.begin} returned it. */
  readonly number: number
}

/** A call that failed. */
interface FailingCall {
  /** The last message of its request; undefined for a request that could not be made. */
  readonly end?: MessageNode | undefined
  readonly about: CallUse
}

interface FailedCall extends FailingCall {
  readonly error: Error
  /** How many calls had started when it failed. */
  readonly startedBefore: number
}

/**
 * The failed calls of a sample that its agent has not recovered from. Frameworks make texts of the errors in their tools and
 * events of those in their streams, so an agent may go on as if nothing had happened, and a failure of the endpoint
 * would be graded as a bad answer. Calls that are not training data are none of its failures.
 */
export class FailedCalls {
  #failed: FailedCall[] = []
  #started = 0

  /** Counts a call that starts. Returns its place among the calls of the sample, from 1. */
  begin(): number {
    return (this.#started += 1)
  }

  fail(error: unknown, { end, about }: FailingCall): void {
    if (!about.trainable) return
    const reason = error instanceof Error ? error : new Error(String(error))
    this.#failed.push({ error: reason, end, about, startedBefore: this.#started })
  }

  succeed(answered: EndedCall): void {
    if (this.#failed.length === 0 || !answered.about.trainable) return
    this.#failed = this.#failed.filter((failed) => !recovers(answered, failed))
  }

  /** The error of the latest; undefined when there is none. */
  get latestError(): Error | undefined {
    return this.#failed.at(-1)?.error
  }
}

/**
 * Whether an agent has recovered from a failed call by one that was answered: by asking again, or by asking in another way.
 * The next call of an agent whose tool asked the policy in vain is neither, because it belongs to a conversation that had
 * begun before and that the failed call was no part of.
 */
function recovers(answered: EndedCall, failed: FailedCall): boolean {
  // A call that started before the failure does not know of it.
  if (answered.number <= failed.startedBefore) return false
  const path = pathTo(answered.end)
  if (failed.end !== undefined && path.includes(failed.end)) return true
  if (answered.about.agent !== failed.about.agent) return false
  if (failed.end === undefined) return true
  const known = new Set(pathTo(failed.end).map(original))
  const earlierAnswers = path.slice(0, -1).filter(({ answer }) => answer !== undefined)
  return earlierAnswers.every((node) => known.has(original(node)))
}

/** The place where an answer was given, which a rewritten history may have moved. */
function original(node: MessageNode): MessageNode {
  return node.copyOf ?? node
}
