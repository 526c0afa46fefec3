import type { RolloutObserver } from '@osmosis/runtime'

import { sendError, type SentError } from '../protocol/sent-error.ts'

type Answer = (call: number, error: SentError | null) => void

/** The model calls of a run, as the worker announces them to the observer of the front. */
export class AnnouncedCalls {
  readonly #begins: NonNullable<RolloutObserver['modelCallBegins']>
  readonly #answer: Answer
  /** Those that have not ended, by number. */
  readonly #going = new Map<number, AbortController>()

  constructor(begins: NonNullable<RolloutObserver['modelCallBegins']>, answer: Answer) {
    this.#begins = begins
    this.#answer = answer
  }

  begin(call: number, endpoint: string): void {
    const ending = new AbortController()
    this.#going.set(call, ending)
    this.#begins({ endpoint, signal: ending.signal }).then(
      (ended) => {
        if (ending.signal.aborted) return ended()
        ending.signal.addEventListener('abort', ended, { once: true })
        return this.#answer(call, null)
      },
      (error: unknown) => {
        // Nobody waits for the answer to a call that has ended.
        if (this.#going.delete(call)) this.#answer(call, sendError(error))
      },
    )
  }

  end(call: number): void {
    const ending = this.#going.get(call)
    this.#going.delete(call)
    ending?.abort()
  }

  /** The worker is gone, or its run is given up. */
  endAll(): void {
    for (const call of this.#going.keys()) this.end(call)
  }
}
