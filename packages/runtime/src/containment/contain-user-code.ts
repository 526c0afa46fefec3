import { AsyncResource } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { syncBuiltinESMExports } from 'node:module'
import { Socket } from 'node:net'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { runOutsideRollout } from '@osmosis/core/http'

import { codePlace } from './code-place.ts'
import { currentScope, type RolloutScope } from './rollout-scope.ts'

const noted = new WeakMap<object, RolloutScope>()

/**
 * The scope that an error was thrown in, when it has passed through another one on its way to the
 * top of the call stack: a connection that one rollout opened calls the code of another.
 */
function thrownIn(error: unknown): RolloutScope | undefined {
  return isObject(error) ? noted.get(error) : undefined
}

/** Makes {@link thrownIn} know. Returns what undoes it. */
function watchThrows(): () => void {
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

/** Undici, of which `fetch` is made, says on this channel that it is about to connect. */
const channel = 'undici:client:beforeConnect'

/**
 * Opens pooled connections of undici outside of the rollout that happened to need them first: they serve
 * all, and what fails on them would look like its doing. Returns what undoes it.
 */
function shareSockets(): () => void {
  let expected = false
  const { prototype } = Socket
  const { connect } = prototype // oxlint-disable-line typescript/unbound-method -- put back as it is
  const sharing = function (this: Socket, ...args: Parameters<typeof connect>): Socket {
    if (!expected) return Reflect.apply(connect, this, args)
    expected = false
    return runOutsideRollout(() => Reflect.apply(connect, this, args))
  } as typeof connect
  const onConnect = (): void => {
    expected = true
    // Another way to connect may be in use, which opens no socket here and now.
    queueMicrotask(() => (expected = false))
  }

  prototype.connect = sharing
  subscribe(channel, onConnect)
  return () => {
    unsubscribe(channel, onConnect)
    if (prototype.connect === sharing) prototype.connect = connect
  }
}

/** How an error got to the process. */
export type StrayOrigin = 'uncaughtException' | 'unhandledRejection'

/** What a process does about errors that nobody caught. */
export interface Containment {
  /** No rollout could be found: the process may be in any state, and should end. */
  onUnattributed(error: unknown, origin: StrayOrigin): void
  /** Something of a part of a rollout that has ended; to be logged. Default: nothing is done. */
  onLate?(rolloutId: string, error: OsmosisError): void
}

const containments = new Set<Containment>()
let uninstall: (() => void) | undefined

/**
 * Lets user code that calls `process.exit`, throws from a callback or leaves a rejection unhandled
 * fail its own rollout, with code `user_code_exit` or `stray_error`, while the process continues.
 * Outside of user code `process.exit` ends the process as always.
 *
 * What cannot be attributed: `process.abort`, signals, what native code does, and `process.exit`
 * taken out of `process` before this was called.
 *
 * @returns what undoes it
 */
export function containUserCode(containment: Containment): () => void {
  containments.add(containment)
  uninstall ??= install()
  return () => {
    containments.delete(containment)
    if (containments.size > 0) return
    uninstall?.()
    uninstall = undefined
  }
}

function install(): () => void {
  const { exit } = process // oxlint-disable-line typescript/unbound-method -- put back as it is
  const guardedExit: typeof exit = (code) => {
    const scope = currentScope()
    if (scope === undefined) return exit(code)
    throw exitRefused(scope, code)
  }
  process.exit = guardedExit
  // For those who import it by name.
  syncBuiltinESMExports()
  process.on('uncaughtException', onStray)
  process.on('unhandledRejection', onRejection)
  const undo = [watchThrows(), shareSockets(), keepListeners(runsUserCode)]
  return () => {
    process.off('uncaughtException', onStray)
    process.off('unhandledRejection', onRejection)
    for (const part of undo) part()
    if (process.exit === guardedExit) process.exit = exit
    syncBuiltinESMExports()
  }
}

function runsUserCode(): boolean {
  return currentScope() !== undefined
}

/** Errors of `process.exit`, which may come back as uncaught ones. */
const reported = new WeakSet<object>()

function exitRefused(scope: RolloutScope, code: number | string | null | undefined): OsmosisError {
  const called = `the ${scope.part} called process.exit(${code ?? ''})`
  const error = new OsmosisError('user_code_exit', called + codePlace(new Error(called)))
  reported.add(error)
  fail(scope, error)
  return error
}

function onStray(error: unknown, origin: StrayOrigin): void {
  const scope = thrownIn(error) ?? currentScope()
  if (scope === undefined) {
    for (const containment of containments) containment.onUnattributed(error, origin)
    return
  }
  if (typeof error === 'object' && error !== null && reported.has(error)) return
  const did =
    origin === 'uncaughtException'
      ? 'threw an error that nobody caught'
      : 'left a rejection unhandled'
  const message = `the ${scope.part} ${did}: ${errorMessage(error)}${codePlace(error)}`
  fail(scope, new OsmosisError('stray_error', message, { cause: error }))
}

function onRejection(error: unknown): void {
  onStray(error, 'unhandledRejection')
}

function fail(scope: RolloutScope, error: OsmosisError): void {
  if (scope.fail(error)) return
  // One is enough: a rollout does not say which of several servers it came from.
  const [first] = containments
  first?.onLate?.(scope.rolloutId, error)
}

/**
 * User code that removes all listeners of its process means its own: while `isUserCode` says that it is
 * running, those of now stay. Returns what undoes it.
 */
export function keepListeners(isUserCode: () => boolean): () => void {
  const before = Object.getOwnPropertyDescriptor(process, 'removeAllListeners')
  const { removeAllListeners } = process // oxlint-disable-line typescript/unbound-method -- called on it below
  const kept = new Map(process.eventNames().map((name) => [name, process.rawListeners(name)]))
  const removeOthers = (...only: Parameters<typeof removeAllListeners>): NodeJS.Process => {
    if (!isUserCode()) return removeAllListeners.apply(process, only)
    for (const name of only.length === 0 ? process.eventNames() : only) {
      for (const listener of process.rawListeners(name as string)) {
        if (!kept.get(name as string)?.includes(listener)) {
          process.off(name as string, listener as () => void)
        }
      }
    }
    return process
  }
  Object.assign(process, { removeAllListeners: removeOthers })
  return () => {
    if (process.removeAllListeners !== removeOthers) return
    if (before) Object.defineProperty(process, 'removeAllListeners', before)
    else Reflect.deleteProperty(process, 'removeAllListeners')
  }
}
