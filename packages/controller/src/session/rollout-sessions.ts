import { createHash } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'
import { RolloutMemory } from '@osmosis/runtime/http'

import { bodyFault, Refusal } from '../http/request-body.ts'
import { RolloutSession, type CallbackDigests, type RolloutFacts } from './rollout-session.ts'

/** Two callbacks of one kind for one rollout that say different things. */
export interface CallbackConflict {
  readonly rolloutId: string
  /** The route they came to: of a workflow the first two, of a hand-written loop the last. */
  readonly kind: 'completion' | 'grader' | 'completed'
}

/** What is called when rollouts end. */
export interface EndHooks<Outcome> {
  readonly onTerminal?: ((outcome: Outcome) => void | Promise<void>) | undefined
  readonly onConflict?: ((conflict: CallbackConflict) => void) | undefined
}

/** A callback, and which kind of callback it is. */
export interface IncomingCallback {
  readonly kind: CallbackConflict['kind']
  readonly body: object
}

/** All rollouts of a controller or trainer, and what callbacks mean to them. */
export class RolloutSessions<Outcome, State> {
  readonly #live = new Map<string, RolloutSession<Outcome, State>>()
  /** Without the outcomes, which hold whole conversations. */
  readonly #finished = new RolloutMemory<CallbackDigests>()
  readonly #hooks: EndHooks<Outcome>

  constructor(hooks: EndHooks<Outcome>) {
    this.#hooks = hooks
  }

  /**
   * Opens a session. `commit` keeps its end, before the hook for all of them is called.
   *
   * @throws OsmosisError with code `invalid_request` when the id is running or has just finished
   */
  register(
    rolloutId: string,
    state: State,
    commit?: EndHooks<Outcome>['onTerminal'],
  ): RolloutSession<Outcome, State> {
    if (this.find(rolloutId) !== undefined) {
      throw new OsmosisError(
        'invalid_request',
        `The rollout id ${JSON.stringify(rolloutId)} is already in use. Give every attempt an id of its own, or none at all.`,
      )
    }
    const session = new RolloutSession<Outcome, State>(rolloutId, state, async (outcome) => {
      await commit?.(outcome)
      await this.#hooks.onTerminal?.(outcome)
      this.retire(session)
    })
    this.#live.set(rolloutId, session)
    return session
  }

  /** The live session, `finished` for one that ended not long ago, or nothing. */
  find(rolloutId: string): RolloutSession<Outcome, State> | 'finished' | undefined {
    const isFinished = this.#finished.get(rolloutId) !== undefined
    return this.#live.get(rolloutId) ?? (isFinished ? 'finished' : undefined)
  }

  /** Closes a session for good; its id is remembered for a while. */
  retire(session: RolloutSession<Outcome, State>): void {
    session.stopPolicyCalls()
    this.#live.delete(session.rolloutId)
    this.#finished.end(session.rolloutId, session.record)
  }

  /** Forgets a session that never got going; its id may be used again. */
  discard(session: RolloutSession<Outcome, State>): void {
    session.stopPolicyCalls()
    this.#live.delete(session.rolloutId)
  }

  /** Takes note of a callback that ends nothing. Returns whether its rollout is known. */
  note(rolloutId: string, callback: IncomingCallback): boolean {
    const record = this.#recordOf(rolloutId)
    if (record !== undefined) this.#compare(rolloutId, callback.kind, record, digest(callback.body))
    return record !== undefined
  }

  /**
   * Takes in a callback that ends its rollout; resolves to false for an unknown id. The first end
   * counts: a repetition changes nothing, and a contradiction is reported.
   *
   * @throws whatever the commit of that end throws; Refusal 422 for a body nested too deeply
   */
  async conclude(
    rolloutId: string,
    { kind, body }: IncomingCallback,
    produce: (facts: RolloutFacts, state: State) => Outcome,
  ): Promise<boolean> {
    const record = this.#recordOf(rolloutId)
    if (record === undefined) return false
    const said = digest(body)
    const session = this.#live.get(rolloutId)
    // Noted with the commit: a body whose commit failed does not stand in the way of another.
    await session?.end(
      (facts) => produce(facts, session.state),
      () => record.set(kind, said),
    )
    this.#compare(rolloutId, kind, record, said)
    return true
  }

  #recordOf(rolloutId: string): CallbackDigests | undefined {
    return this.#live.get(rolloutId)?.record ?? this.#finished.get(rolloutId)
  }

  #compare(
    rolloutId: string,
    kind: CallbackConflict['kind'],
    record: CallbackDigests,
    said: string,
  ): void {
    const before = record.get(kind)
    if (before === undefined) record.set(kind, said)
    else if (before !== said) this.#hooks.onConflict?.({ rolloutId, kind })
  }
}

function digest(body: object): string {
  return createHash('sha256').update(comparable(body)).digest('base64')
}

// The id is known already; whether the body repeats it makes no difference.
function comparable(body: object): string {
  try {
    return JSON.stringify({ ...body, rollout_id: undefined })
  } catch {
    throw new Refusal(422, bodyFault(422, 'value_error', 'nested too deeply'))
  }
}
