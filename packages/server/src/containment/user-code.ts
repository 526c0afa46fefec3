import { AsyncLocalStorage } from 'node:async_hooks'

import type { OsmosisError } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'

// On globalThis, so that two installed copies of this package see the same scope.
const storageKey = Symbol.for('osmosis.rollout-scope')
const holder = globalThis as { [storageKey]?: AsyncLocalStorage<RolloutScope> }
const storage = (holder[storageKey] ??= new AsyncLocalStorage<RolloutScope>())

/** Whose user code is running. Code that outlives its rollout stays in its scope. */
export interface RolloutScope {
  readonly rolloutId: string
  /** Which user code it is, as error messages name it. */
  readonly part: 'workflow' | 'grader' | 'agent loop'
  /**
   * Fails the rollout with this error, whatever its code does from then on.
   *
   * @returns false when this part has already ended, so that nothing changes
   */
  fail(error: OsmosisError): boolean
}

/** Runs user code. What it starts belongs to the scope as well. */
export function runInRollout<T>(scope: RolloutScope, userCode: () => T): T {
  return storage.run(scope, userCode)
}

/** The scope of the code that is running; undefined outside of user code. */
export function currentScope(): RolloutScope | undefined {
  return storage.getStore()
}

/** The user code of one part of a rollout. Its signal aborts when it is ended early or harms the process. */
export class UserCode implements RolloutScope {
  readonly rolloutId: string
  readonly part: RolloutScope['part']
  readonly #controller = new AbortController()
  #ended = false

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
    runInRollout(this, () => this.#controller.abort(reason))
  }

  fail(error: OsmosisError): boolean {
    if (this.#ended || this.signal.aborted) return false
    this.abort(error)
    return true
  }

  /** Settles as the code does, or with the reason of its abort, even if the code never settles. */
  run<T>(start: () => Promise<T>): Promise<T> {
    return untilAborted(this.signal, () => runInRollout(this, start), this)
  }

  /** Called when the code has succeeded. Subclasses with a deadline throw when that was too late. */
  throwIfLate(): void {}

  /** Marks this part as ended: nothing that its code does changes the rollout any more. */
  clear(): void {
    this.#ended = true
  }
}
