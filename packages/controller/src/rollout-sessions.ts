import { createHash } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'
import type { CompletionCallbackBody, GraderCallbackBody } from '@osmosis/core/wire'

import type { CallbackConflict } from './controller-options.ts'
import { FinishedRollouts } from './finished-rollouts.ts'
import type { RolloutOutcome } from './rollout-result.ts'
import { type CallbackRecord, RolloutSession } from './rollout-session.ts'
import { gradedResult, toCompletionReport, ungradedResult } from './terminal-result.ts'

/** All rollouts of a controller, and what callbacks mean to them. */
export class RolloutSessions {
  readonly #live = new Map<string, RolloutSession>()
  readonly #finished = new FinishedRollouts()
  readonly #onTerminal: (result: RolloutOutcome) => void | Promise<void>
  readonly #onConflict: (conflict: CallbackConflict) => void

  constructor(hooks: {
    onTerminal: (result: RolloutOutcome) => void | Promise<void>
    onConflict: (conflict: CallbackConflict) => void
  }) {
    this.#onTerminal = hooks.onTerminal
    this.#onConflict = hooks.onConflict
  }

  /**
   * Opens a session.
   *
   * @throws OsmosisError with code `invalid_request` when the id is running or has just finished
   */
  register(rolloutId: string, options: { graded: boolean }): RolloutSession {
    if (this.find(rolloutId) !== undefined) {
      throw new OsmosisError(
        'invalid_request',
        `The rollout id ${JSON.stringify(rolloutId)} is already in use. Give every attempt an id of its own, or none at all.`,
      )
    }
    const session = new RolloutSession(rolloutId, {
      graded: options.graded,
      commit: async (result) => {
        await this.#onTerminal(result)
        this.retire(session)
      },
    })
    this.#live.set(rolloutId, session)
    return session
  }

  /** The live session, `finished` for one that ended not long ago, or nothing. */
  find(rolloutId: string): RolloutSession | 'finished' | undefined {
    return (
      this.#live.get(rolloutId) ??
      (this.#finished.get(rolloutId) === undefined ? undefined : 'finished')
    )
  }

  /** Closes a session for good; its id is remembered for a while. */
  retire(session: RolloutSession): void {
    session.stopPolicyCalls()
    this.#live.delete(session.rolloutId)
    this.#finished.add(session.rolloutId, session.record)
  }

  /** Forgets a session that never got going; its id may be used again. */
  discard(session: RolloutSession): void {
    session.stopPolicyCalls()
    this.#live.delete(session.rolloutId)
  }

  /**
   * Takes in a completion callback; resolves to false for an unknown id. Ends a rollout that is not
   * graded.
   *
   * @throws whatever the commit of that end throws
   */
  async receiveCompletion(rolloutId: string, body: CompletionCallbackBody): Promise<boolean> {
    const session = this.#live.get(rolloutId)
    const record = session?.record ?? this.#finished.get(rolloutId)
    if (record === undefined) return false
    this.#note(rolloutId, 'completion', record, digest(body))
    if (session === undefined) return true
    const completion = (session.completion ??= toCompletionReport(body))
    if (!session.graded) await session.end((facts) => ungradedResult(facts, completion))
    return true
  }

  /**
   * Takes in a grader callback, which ends the rollout; resolves to false for an unknown id.
   *
   * @throws whatever the commit of that end throws
   */
  async receiveGrader(rolloutId: string, body: GraderCallbackBody): Promise<boolean> {
    const session = this.#live.get(rolloutId)
    const record = session?.record ?? this.#finished.get(rolloutId)
    if (record === undefined) return false
    const said = digest(body)
    // Noted with the commit: a body whose commit failed does not stand in the way of another.
    await session?.end(
      (facts) => gradedResult(facts, body),
      () => {
        record.grader = said
      },
    )
    this.#note(rolloutId, 'grader', record, said)
    return true
  }

  #note(
    rolloutId: string,
    kind: CallbackConflict['kind'],
    record: CallbackRecord,
    said: string,
  ): void {
    const before = (record[kind] ??= said)
    if (before !== said) this.#onConflict({ rolloutId, kind })
  }
}

// The id is in the path; whether the body repeats it makes no difference.
function digest(body: CompletionCallbackBody | GraderCallbackBody): string {
  const said = JSON.stringify({ ...body, rollout_id: undefined })
  return createHash('sha256').update(said).digest('base64')
}
