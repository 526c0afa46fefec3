import { AsyncResource } from 'node:async_hooks'

import { currentScope, type RolloutScope } from './rollout-scope.ts'

const noted = new WeakMap<object, RolloutScope>()

/**
 * The scope that an error was thrown in, when it has passed through another one on its way to the
 * top of the call stack: a connection that one rollout opened calls the code of another.
 */
export function thrownIn(error: unknown): RolloutScope | undefined {
  return isObject(error) ? noted.get(error) : undefined
}

/** Makes {@link thrownIn} know. Returns what undoes it. */
export function watchThrows(): () => void {
  const { prototype } = AsyncResource
  const { runInAsyncScope } = prototype // oxlint-disable-line typescript/unbound-method -- put back as it is
  const { queueMicrotask } = globalThis

  const watched: typeof runInAsyncScope = function (this: AsyncResource, fn, thisArg, ...args) {
    return Reflect.apply(runInAsyncScope, this, [
      noting,
      thisArg,
      fn,
      ...(args as unknown[]),
    ]) as ReturnType<typeof fn>
  }
  prototype.runInAsyncScope = watched
  // Node.js 20 and 22 report what a microtask throws without its context.
  const watchedQueue: typeof queueMicrotask = (callback) => {
    const known = currentScope() !== undefined && typeof callback === 'function'
    queueMicrotask(known ? () => Reflect.apply(noting, undefined, [callback]) : callback)
  }
  globalThis.queueMicrotask = watchedQueue

  return () => {
    if (prototype.runInAsyncScope === watched) prototype.runInAsyncScope = runInAsyncScope
    if (globalThis.queueMicrotask === watchedQueue) globalThis.queueMicrotask = queueMicrotask
  }
}

function noting<A extends unknown[], R>(
  this: unknown,
  fn: (this: unknown, ...args: A) => R,
  ...args: A
): R {
  try {
    return Reflect.apply(fn, this, args)
  } catch (error) {
    note(error)
    throw error
  }
}

/** Only for this turn: later somebody else may throw the same error. Until then it may be rethrown. */
function note(error: unknown): void {
  const scope = currentScope()
  if (scope === undefined || !isObject(error) || noted.has(error)) return
  noted.set(error, scope)
  setImmediate(() => noted.delete(error))
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
