import { errorMessage } from '@osmosis/core'

/** Whether an evaluation continues. Stops once; the first reason counts. */
export class StopSwitch {
  readonly #cancel = new AbortController()
  readonly #outer: AbortSignal | undefined
  readonly #onOuterAbort = (): void => this.cancel(this.#outer?.reason)
  #reason: string | undefined

  /** Cancels when `outer` aborts; call {@link release} when it is of no more interest. */
  constructor(outer: AbortSignal | undefined) {
    this.#outer = outer
    if (outer?.aborted) this.cancel(outer.reason)
    else outer?.addEventListener('abort', this.#onOuterAbort)
  }

  /** Why no further item is started; undefined as long as they are. */
  get reason(): string | undefined {
    return this.#reason
  }

  /** Aborts when rollouts in progress are to be cancelled too. */
  get signal(): AbortSignal {
    return this.#cancel.signal
  }

  /** Starts no further item. */
  halt(cause: unknown): void {
    this.#reason ??= errorMessage(cause)
  }

  /** Starts no further item and cancels those in progress. */
  cancel(cause: unknown): void {
    this.halt(cause)
    this.#cancel.abort(cause)
  }

  release(): void {
    this.#outer?.removeEventListener('abort', this.#onOuterAbort)
  }
}
