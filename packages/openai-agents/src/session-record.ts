import { isDeepStrictEqual } from 'node:util'

import type { AgentInputItem } from '@openai/agents'
import { OsmosisError, type RolloutContext } from '@osmosis/core'
import { sharedByCopies, wrongRollout } from '@osmosis/core/workflow'

import { PendingApprovals } from './pending-approvals.ts'
import type { RunAnswers } from './policy-faults.ts'

/** How every copy of this package finds the record of a session. */
export const sessionRecordKey: unique symbol = Symbol.for('osmosis.openai-agents.session-record')

/**
 * What is known of a session besides the items that the SDK stores in it. The SDK stores the items
 * of a run when it ends well and nothing of one that fails; such runs are graded as well, so the
 * conversation as of the latest model call is held here until the SDK has stored it.
 */
export class SessionRecord {
  readonly name: string
  /** The rollout the session was made in; undefined for one made outside of any. */
  readonly context: RolloutContext | undefined
  /** As the program gave it. */
  readonly sessionId: string | undefined
  /** The items that the SDK has stored in the session, or in the latest one made again with its id. */
  items: () => Promise<AgentInputItem[]> = async () => []
  #unfinished: readonly AgentInputItem[] | undefined
  #pending: PendingApprovals | undefined

  constructor(about: Pick<SessionRecord, 'name' | 'sessionId' | 'context'>) {
    this.name = about.name
    this.sessionId = about.sessionId
    this.context = about.context
  }

  /**
   * @throws OsmosisError with code `wrong_rollout_context` when the session is used in another
   * rollout than the one it was made in
   */
  assertBelongsTo(context: RolloutContext | undefined): void {
    if (context === undefined || context === this.context) return
    const what = `The OsmosisMemorySession "${this.name}"`
    if (this.context !== undefined) throw wrongRollout(what, this.context, context)
    throw new OsmosisError(
      'wrong_rollout_context',
      `${what} is not part of this rollout: it was made outside of any rollout. Construct the session inside AgentWorkflow.run().`,
    )
  }

  /** Notes the request of a model call, and afterwards its answer. */
  noteModelCall(
    input: string | readonly AgentInputItem[],
    output: readonly AgentInputItem[],
  ): void {
    const asked: readonly AgentInputItem[] =
      typeof input === 'string' ? [{ role: 'user', content: input }] : input
    this.#unfinished = [...asked, ...output]
  }

  /** The SDK has stored the run. */
  noteSuccess(result: object, answers: RunAnswers): void {
    this.#unfinished = undefined
    this.#pending = PendingApprovals.of(this.name, result, answers)
  }

  /** All items have left the session. */
  noteCleared(): void {
    this.#unfinished = undefined
    this.#pending = undefined
  }

  /**
   * A run ended without being stored.
   *
   * @param history - the items that the SDK's run state holds, when there is one: they include the
   * tool results that came after the latest model call
   */
  noteFailure(history: readonly AgentInputItem[] | undefined): void {
    this.#pending = undefined
    const known = this.#unfinished
    if (known === undefined || history === undefined || history.length <= known.length) return
    // The state may be that of another run, e.g. of an agent that was used as a tool.
    if (isDeepStrictEqual(history[0], known[0])) this.#unfinished = [...history]
  }

  /** The error of a program that has left the latest run waiting for an approval; undefined when it has not. */
  unansweredApproval(): OsmosisError | undefined {
    return this.#pending?.error
  }

  /** What the policy answered in the latest run, if that waits for an approval: a run that continues it goes on from there. */
  get answersToContinue(): RunAnswers | undefined {
    return this.#pending?.answers
  }

  /** The conversation of a run that has not been stored; undefined when all is stored. */
  get unfinished(): AgentInputItem[] | undefined {
    return this.#unfinished && structuredClone([...this.#unfinished])
  }
}

/** The record of a session of this package; undefined for any other value. */
export function sessionRecordOf(value: unknown): SessionRecord | undefined {
  return typeof value === 'object' && value !== null && sessionRecordKey in value
    ? (value as { [sessionRecordKey]: SessionRecord })[sessionRecordKey]
    : undefined
}

const sessions = sharedByCopies(
  'openai-agents.rollout-sessions',
  () => new WeakMap<RolloutContext, SessionRecord[]>(),
)

/** Notes that a session was made in a rollout. */
export function registerSession(context: RolloutContext, record: SessionRecord): void {
  const known = sessions.get(context)
  if (known) known.push(record)
  else sessions.set(context, [record])
}

/** The sessions of a rollout, oldest first. */
export function sessionsOf(context: RolloutContext): readonly SessionRecord[] {
  return sessions.get(context) ?? []
}
