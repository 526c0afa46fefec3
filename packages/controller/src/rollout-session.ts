import { PolicyUsage } from './policy-usage.ts'
import type { CompletionReport, RolloutOutcome } from './rollout-result.ts'
import type { RolloutFacts } from './terminal-result.ts'

/** Digests of the callbacks that counted, to tell a repetition from a contradiction. */
export interface CallbackRecord {
  completion?: string
  grader?: string
}

/** A rollout between its order and its end. Ends once. */
export class RolloutSession {
  readonly rolloutId: string
  readonly graded: boolean
  readonly usage = new PolicyUsage()
  readonly record: CallbackRecord = {}
  /** Resolves with the committed end, never rejects. */
  readonly ended: Promise<RolloutOutcome>
  completion: CompletionReport | null = null

  readonly #commit: (result: RolloutOutcome) => Promise<void>
  readonly #resolveEnded: (result: RolloutOutcome) => void
  readonly #over = new AbortController()
  #sentAt = performance.now()
  #committing: Promise<void> | undefined
  #result: RolloutOutcome | undefined

  /** `commit` makes an end durable; as long as it fails, the rollout has not ended. */
  constructor(
    rolloutId: string,
    options: { graded: boolean; commit: (result: RolloutOutcome) => Promise<void> },
  ) {
    this.rolloutId = rolloutId
    this.graded = options.graded
    this.#commit = options.commit
    const { promise, resolve } = Promise.withResolvers<RolloutOutcome>()
    this.ended = promise
    this.#resolveEnded = resolve
  }

  /** Aborts when the rollout has no more use for answers of the policy. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  /** The clock of the rollout starts anew: the order goes out (again). */
  markSent(): void {
    this.#sentAt = performance.now()
  }

  /**
   * Ends the rollout with what `produce` says, unless it has ended already, and resolves to the
   * end that counts. Contenders queue up behind a commit under way, and one whose turn comes after
   * a failed commit commits its own. `onWon` runs before anybody else learns of the end.
   *
   * @throws whatever the commit throws; the rollout then goes on.
   */
  async end(
    produce: (facts: RolloutFacts) => RolloutOutcome,
    onWon?: () => void,
  ): Promise<RolloutOutcome> {
    const earlier = await this.committed()
    if (earlier !== undefined) return earlier
    const result = produce(this.#facts())
    this.#committing = this.#commitEnd(result, onWon)
    await this.#committing
    return result
  }

  /** The end, if there is one once no commit is under way. */
  async committed(): Promise<RolloutOutcome | undefined> {
    while (this.#committing !== undefined) {
      try {
        await this.#committing
      } catch {
        // The contender that started this commit reports its failure.
      }
    }
    return this.#result
  }

  /** Breaks off model calls under way. */
  stopPolicyCalls(): void {
    this.#over.abort()
  }

  async #commitEnd(result: RolloutOutcome, onWon: (() => void) | undefined): Promise<void> {
    try {
      await this.#commit(result)
      this.#result = result
      onWon?.()
      this.#resolveEnded(result)
    } finally {
      this.#committing = undefined
    }
  }

  #facts(): RolloutFacts {
    return {
      rolloutId: this.rolloutId,
      completion: this.completion,
      policyCalls: this.usage.calls,
      usage: this.usage.tokens,
      durationMs: performance.now() - this.#sentAt,
    }
  }
}
