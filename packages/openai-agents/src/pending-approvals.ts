import { OsmosisError } from '@osmosis/core'

import type { RunAnswers } from './policy-faults.ts'

/** What is used of the result of a run: the tool calls that it asks the program to approve, and what that has decided. */
interface StoppedRun {
  readonly interruptions?: readonly ApprovalItem[]
  readonly runContext: {
    isToolApproved(call: { toolName: string; callId: string }): boolean | undefined
  }
}

interface ApprovalItem {
  readonly name?: string | undefined
  readonly rawItem: { readonly callId?: string; readonly name?: string }
}

/** What a run waits for that stopped before its end: the program has to approve tool calls, or to reject them. */
export class PendingApprovals {
  /** What the policy answered in the run. */
  readonly answers: RunAnswers
  readonly #run: StoppedRun
  readonly #items: readonly ApprovalItem[]
  readonly #error: OsmosisError

  private constructor(
    session: string,
    {
      run,
      items,
      answers,
    }: { run: StoppedRun; items: readonly ApprovalItem[]; answers: RunAnswers },
  ) {
    this.#run = run
    this.#items = items
    this.answers = answers
    const calls = items.map((item) => `${nameOf(item)}()`).join(', ')
    // Made when the run stops, because its stack then has the line of the program that called the run.
    this.#error = new OsmosisError(
      'pending_approval',
      `The SDK's run() waits until the program approves or rejects ${calls}, and the program has not: the conversation of the session "${session}" stops in the middle. Call result.state.approve() or reject() for each of result.interruptions, and then run(agent, result.state, { session }) with the same session.`,
    )
  }

  /** Undefined for a run that waits for nothing. */
  static of(session: string, result: object, answers: RunAnswers): PendingApprovals | undefined {
    const run = result as StoppedRun
    const items = run.interruptions ?? []
    return items.length === 0 ? undefined : new PendingApprovals(session, { run, items, answers })
  }

  /**
   * The error of a program that has left a call undecided; undefined when there is none. A program that rejects the
   * calls and does not go on wants the conversation to end there.
   */
  get error(): OsmosisError | undefined {
    const isOpen = this.#items.some((item) => {
      const call = { toolName: nameOf(item), callId: item.rawItem.callId ?? '' }
      return this.#run.runContext.isToolApproved(call) === undefined
    })
    return isOpen ? this.#error : undefined
  }
}

function nameOf({ name, rawItem }: ApprovalItem): string {
  return name ?? rawItem.name ?? ''
}
