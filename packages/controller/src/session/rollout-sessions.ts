import { createHash } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'
import { RolloutMemory } from '@osmosis/protocol/http'

import { bodyFault, Refusal } from '../http/request-body.ts'
import { PolicyUsage, type TokenUsage } from '../policy/usage.ts'

/** How a rollout ended. A rollout whose workflow failed is a failure, whatever its grader reports. */
export type RolloutEnding = 'success' | 'failure' | 'timeout' | 'cancelled'

/** Facts about a rollout at its end. */
export interface RolloutFacts {
  readonly rolloutId: string
  /** Accepted model calls. */
  readonly policyCalls: number
  readonly usage: TokenUsage
  /** From the accepted request to the end. Milliseconds. */
  readonly durationMs: number
}

/** Digests of the first callback of each kind, to distinguish a repetition from a contradiction. */
export type CallbackDigests = Map<string, string>

/** A rollout between its order and its end. Ends once. */
export class RolloutSession<Outcome, State> {
  readonly rolloutId: string
  /** State of the rollout's protocol. */
  readonly state: State
  readonly usage = new PolicyUsage()
  readonly record: CallbackDigests = new Map()
  /** Resolves with the committed outcome. Never rejects. */
  readonly ended: Promise<Outcome>

  readonly #commit: (outcome: Outcome) => Promise<void>
  readonly #resolveEnded: (outcome: Outcome) => void
  readonly #over = new AbortController()
  #sentAt = performance.now()
  readonly #ending = new Set<Promise<Outcome>>()
  #committing: Promise<void> | undefined
  #outcome: Outcome | undefined

  /** `commit` makes an outcome durable; the rollout has not ended while it fails. */
  constructor(rolloutId: string, state: State, commit: (outcome: Outcome) => Promise<void>) {
    this.rolloutId = rolloutId
    this.state = state
    this.#commit = commit
    const { promise, resolve } = Promise.withResolvers<Outcome>()
    this.ended = promise
    this.#resolveEnded = resolve
  }

  /** Aborts when the rollout needs no more answers of the policy. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  /** Restarts the clock of the rollout, because its order is sent. */
  markSent(): void {
    this.#sentAt = performance.now()
  }

  /**
   * Ends the rollout with the outcome of `produce`, unless it has ended already, and resolves with its actual
   * outcome. Waits for a commit in progress; if that fails, commits its own outcome. `onWon` runs before other
   * callers learn the outcome.
   *
   * @throws the error of the commit; the rollout then continues.
   */
  async end(produce: (facts: RolloutFacts) => Outcome, onWon?: () => void): Promise<Outcome> {
    const ending = this.#end(produce, onWon)
    this.#ending.add(ending)
    try {
      return await ending
    } finally {
      this.#ending.delete(ending)
    }
  }

  /** The outcome once nobody is about to end the rollout. When it continues then, resolves as `act` does, called at once. */
  async endedOr<T>(act: () => Promise<T>): Promise<Outcome | T> {
    // Those that wait for a commit that fails begin one of their own.
    while (this.#ending.size > 0) await Promise.allSettled(this.#ending)
    return this.#outcome ?? act()
  }

  /** Aborts model calls in progress. */
  stopPolicyCalls(): void {
    this.#over.abort()
  }

  async #end(
    produce: (facts: RolloutFacts) => Outcome,
    onWon: (() => void) | undefined,
  ): Promise<Outcome> {
    // Several may wait for a commit that fails. The first of them commits next, and the others wait for it.
    while (this.#committing !== undefined) {
      try {
        await this.#committing
      } catch {
        // The caller that started this commit reports its failure.
      }
    }
    if (this.#outcome !== undefined) return this.#outcome
    const outcome = produce(this.#facts())
    this.#committing = this.#commitEnd(outcome, onWon)
    await this.#committing
    return outcome
  }

  async #commitEnd(outcome: Outcome, onWon: (() => void) | undefined): Promise<void> {
    try {
      await this.#commit(outcome)
      this.#outcome = outcome
      onWon?.()
      this.#resolveEnded(outcome)
    } finally {
      this.#committing = undefined
    }
  }

  #facts(): RolloutFacts {
    return {
      rolloutId: this.rolloutId,
      policyCalls: this.usage.calls,
      usage: this.usage.tokens,
      durationMs: performance.now() - this.#sentAt,
    }
  }
}

/** Two callbacks of one kind for one rollout with different bodies. */
export interface CallbackConflict {
  readonly rolloutId: string
  /** Their route: of a workflow the first two, of a hand-written loop the last. */
  readonly kind: 'completion' | 'grader' | 'completed'
}

/** Called when rollouts end. */
export interface EndHooks<Outcome> {
  readonly onTerminal?: ((outcome: Outcome) => void | Promise<void>) | undefined
  readonly onConflict?: ((conflict: CallbackConflict) => void) | undefined
}

/** A callback and its kind. */
export interface IncomingCallback {
  readonly kind: CallbackConflict['kind']
  readonly body: object
}

/** All rollouts of a controller or trainer. Applies callbacks to them. */
export class RolloutSessions<Outcome, State> {
  readonly #live = new Map<string, RolloutSession<Outcome, State>>()
  /** Without the outcomes, which have whole conversations. */
  readonly #finished = new RolloutMemory<CallbackDigests>()
  readonly #hooks: EndHooks<Outcome>

  constructor(hooks: EndHooks<Outcome>) {
    this.#hooks = hooks
  }

  /**
   * Opens a session. `commit` stores its outcome, before `onTerminal` of all sessions is called.
   *
   * @throws OsmosisError with code `invalid_request` when the id is running or finished recently
   */
  register(
    rolloutId: string,
    state: State,
    commit?: EndHooks<Outcome>['onTerminal'],
  ): RolloutSession<Outcome, State> {
    if (this.find(rolloutId) !== undefined) {
      throw new OsmosisError(
        'invalid_request',
        `The rollout id ${JSON.stringify(rolloutId)} is already in use. Give every attempt its own id, or none.`,
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

  /** The live session, `finished` for one that ended recently, or undefined. */
  find(rolloutId: string): RolloutSession<Outcome, State> | 'finished' | undefined {
    const isFinished = this.#finished.get(rolloutId) !== undefined
    return this.#live.get(rolloutId) ?? (isFinished ? 'finished' : undefined)
  }

  /** Closes a session permanently; its id stays known for a while. */
  retire(session: RolloutSession<Outcome, State>): void {
    session.stopPolicyCalls()
    this.#live.delete(session.rolloutId)
    this.#finished.end(session.rolloutId, session.record)
  }

  /** Removes a session that never started; its id may be used again. */
  discard(session: RolloutSession<Outcome, State>): void {
    session.stopPolicyCalls()
    this.#live.delete(session.rolloutId)
  }

  /** Records a callback that does not end its rollout. Returns whether the rollout is known. */
  note(rolloutId: string, callback: IncomingCallback): boolean {
    const record = this.#recordOf(rolloutId)
    if (record !== undefined) this.#compare(rolloutId, callback.kind, record, digest(callback.body))
    return record !== undefined
  }

  /**
   * Applies a callback that ends its rollout; resolves to false for an unknown id. The first outcome counts: a
   * repetition changes nothing, and a contradiction is reported.
   *
   * @throws the error of the commit; Refusal 422 for a body that is nested too deeply
   */
  async conclude(
    rolloutId: string,
    { kind, body }: IncomingCallback,
    produce: (facts: RolloutFacts, state: State) => Outcome,
  ): Promise<boolean> {
    const record = this.#recordOf(rolloutId)
    if (record === undefined) return false
    const received = digest(body)
    const session = this.#live.get(rolloutId)
    // Recorded with the commit: after a failed commit another body may follow.
    await session?.end(
      (facts) => produce(facts, session.state),
      () => record.set(kind, received),
    )
    this.#compare(rolloutId, kind, record, received)
    return true
  }

  #recordOf(rolloutId: string): CallbackDigests | undefined {
    return this.#live.get(rolloutId)?.record ?? this.#finished.get(rolloutId)
  }

  #compare(
    rolloutId: string,
    kind: CallbackConflict['kind'],
    record: CallbackDigests,
    received: string,
  ): void {
    const before = record.get(kind)
    if (before === undefined) record.set(kind, received)
    else if (before !== received) this.#hooks.onConflict?.({ rolloutId, kind })
  }
}

function digest(body: object): string {
  return createHash('sha256').update(comparable(body)).digest('base64')
}

// Without the id, which bodies need not have.
function comparable(body: object): string {
  try {
    return JSON.stringify({ ...body, rollout_id: undefined })
  } catch {
    throw new Refusal(422, bodyFault(422, 'value_error', 'nested too deeply'))
  }
}
