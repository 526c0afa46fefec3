import { PolicyUsage, type TokenUsage } from '../policy/usage.ts'

/** How a rollout ended. A failed workflow is a failure whatever its grader said. */
export type RolloutEnding = 'success' | 'failure' | 'timeout' | 'cancelled'

/** What is known of any rollout when its end comes. */
export interface RolloutFacts {
  readonly rolloutId: string
  /** Model calls the policy endpoint let through. */
  readonly policyCalls: number
  readonly usage: TokenUsage
  /** From the request that the server accepted to the end. Milliseconds. */
  readonly durationMs: number
}

/** Digests of the callbacks that counted, by kind, to tell a repetition from a contradiction. */
export type CallbackDigests = Map<string, string>

/** A rollout between its order and its end. Ends once. */
export class RolloutSession<Outcome, State> {
  readonly rolloutId: string
  /** What the protocol of the rollout needs to remember. */
  readonly state: State
  readonly usage = new PolicyUsage()
  readonly record: CallbackDigests = new Map()
  /** Resolves with the committed end, never rejects. */
  readonly ended: Promise<Outcome>

  readonly #commit: (outcome: Outcome) => Promise<void>
  readonly #resolveEnded: (outcome: Outcome) => void
  readonly #over = new AbortController()
  #sentAt = performance.now()
  #committing: Promise<void> | undefined
  #outcome: Outcome | undefined

  /** `commit` makes an end durable; as long as it fails, the rollout has not ended. */
  constructor(rolloutId: string, state: State, commit: (outcome: Outcome) => Promise<void>) {
    this.rolloutId = rolloutId
    this.state = state
    this.#commit = commit
    const { promise, resolve } = Promise.withResolvers<Outcome>()
    this.ended = promise
    this.#resolveEnded = resolve
  }

  /** Aborts when the rollout has no more use for answers of the policy. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  /** The clock of the rollout starts again: the order goes out (again). */
  markSent(): void {
    this.#sentAt = performance.now()
  }

  /**
   * Ends the rollout with what `produce` says, unless it has ended already, and resolves to the
   * end that counts. Contenders queue up behind a commit in progress, and one whose turn comes after
   * a failed commit commits its own. `onWon` runs before anybody else learns of the end.
   *
   * @throws whatever the commit throws; the rollout then continues.
   */
  async end(produce: (facts: RolloutFacts) => Outcome, onWon?: () => void): Promise<Outcome> {
    const earlier = await this.committed()
    if (earlier !== undefined) return earlier
    const outcome = produce(this.#facts())
    this.#committing = this.#commitEnd(outcome, onWon)
    await this.#committing
    return outcome
  }

  /** The end, if there is one once no commit is in progress. */
  async committed(): Promise<Outcome | undefined> {
    while (this.#committing !== undefined) {
      try {
        await this.#committing
      } catch {
        // The contender that started this commit reports its failure.
      }
    }
    return this.#outcome
  }

  /** Breaks off model calls in progress. */
  stopPolicyCalls(): void {
    this.#over.abort()
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
