import { AsyncLocalStorage } from 'node:async_hooks'

import type { OsmosisError } from '@osmosis/core'

// On globalThis, so that two installed copies of this package see the same scope.
const storageKey = Symbol.for('osmosis.rollout-scope')
const holder = globalThis as { [storageKey]?: AsyncLocalStorage<RolloutScope> }
const storage = (holder[storageKey] ??= new AsyncLocalStorage<RolloutScope>())

/** Whose user code is running. Code that outlives its rollout keeps its scope. */
export interface RolloutScope {
  readonly rolloutId: string
  /** What the code is, in the words of error messages. */
  readonly part: 'workflow' | 'grader' | 'agent loop'
  /**
   * Fails the rollout with this error, whatever its code does from then on.
   *
   * @returns false when this part of it is over already, so that nothing changes
   */
  fail(error: OsmosisError): boolean
}

/** Runs user code. What it starts belongs to the scope as well. */
export function inScope<T>(scope: RolloutScope, userCode: () => T): T {
  return storage.run(scope, userCode)
}

/** The scope of the code that is running; undefined outside of user code. */
export function currentScope(): RolloutScope | undefined {
  return storage.getStore()
}
