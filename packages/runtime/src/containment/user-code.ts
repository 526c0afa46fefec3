import type { OsmosisError } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import { inScope, type RolloutScope } from './rollout-scope.ts'

/**
 * The user code of one part of a rollout. Its signal aborts when it is ended early, and when it
 * harms the process.
 */
export class UserCode implements RolloutScope {
  readonly rolloutId: string
  readonly part: RolloutScope['part']
  readonly #controller = new AbortController()
  #over = false

  constructor({ rolloutId, part }: Pick<RolloutScope, 'rolloutId' | 'part'>) {
    this.rolloutId = rolloutId
    this.part = part
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Ends it early, with the reason that everything waiting for it will see. */
  abort(reason: OsmosisError): void {
    // Listeners of the signal are user code.
    inScope(this, () => this.#controller.abort(reason))
  }

  fail(error: OsmosisError): boolean {
    if (this.#over || this.signal.aborted) return false
    this.abort(error)
    return true
  }

  /** Settles as the code does, or with the reason of its abort, even if the code never settles. */
  run<T>(start: () => Promise<T>): Promise<T> {
    return untilAborted(this.signal, () => inScope(this, start), this)
  }

  /** Called when the code has succeeded. Throws where that was too late; here nothing is. */
  throwIfLate(): void {}

  /** From now on nothing that the code does changes the rollout. */
  clear(): void {
    this.#over = true
  }
}
