import { AsyncResource } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { syncBuiltinESMExports } from 'node:module'
import { Socket } from 'node:net'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { runOutsideRollout } from '@osmosis/core/http'

import { codePlace } from './error-place.ts'
import { currentScope, type RolloutScope } from './user-code.ts'

const noted = new WeakMap<object, RolloutScope>()

/**
 * The scope that an error was thrown in. It can pass through another one on its way up the call stack,
 * because a connection that one rollout opened calls the code of another.
 */
function thrownIn(error: unknown): RolloutScope | undefined {
  return isObject(error) ? noted.get(error) : undefined
}

/** Records scopes for {@link thrownIn}. Returns a function that undoes it. */
function watchThrows(): () => void {
  const { prototype } = AsyncResource
  const { runInAsyncScope } = prototype // oxlint-disable-line typescript/unbound-method -- restored unchanged
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

/** Only for this turn, in which the error may be rethrown: later other code may throw the same one. */
function note(error: unknown): void {
  const scope = currentScope()
  if (scope === undefined || !isObject(error) || noted.has(error)) return
  noted.set(error, scope)
  setImmediate(() => noted.delete(error))
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Undici, which implements `fetch`, publishes on this channel before it connects. */
const channel = 'undici:client:beforeConnect'

/**
 * Opens pooled connections of undici outside of the rollout that needs them first: they serve all
 * rollouts, and their errors would be attributed to that one. Returns a function that undoes it.
 */
function shareSockets(): () => void {
  let expected = false
  const { prototype } = Socket
  const { connect } = prototype // oxlint-disable-line typescript/unbound-method -- restored unchanged
  const sharing = function (this: Socket, ...args: Parameters<typeof connect>): Socket {
    if (!expected) return Reflect.apply(connect, this, args)
    expected = false
    return runOutsideRollout(() => Reflect.apply(connect, this, args))
  } as typeof connect
  const onConnect = (): void => {
    expected = true
    // Undici may use a connector that does not open a socket synchronously.
    queueMicrotask(() => (expected = false))
  }

  prototype.connect = sharing
  subscribe(channel, onConnect)
  return () => {
    unsubscribe(channel, onConnect)
    if (prototype.connect === sharing) prototype.connect = connect
  }
}

/** How an error reached the process. */
export type StrayOrigin = 'uncaughtException' | 'unhandledRejection'

/** What a process does about uncaught errors. */
export interface Containment {
  /** The error belongs to no rollout: the process may be in any state, and should exit. */
  onUnattributed(error: unknown, origin: StrayOrigin): void
  /** The error belongs to a part of a rollout that has ended; to be logged. Default: it is ignored. */
  onLate?(rolloutId: string, error: OsmosisError): void
}

const containments = new Set<Containment>()
let uninstall: (() => void) | undefined

/**
 * Lets user code that calls `process.exit`, throws from a callback or leaves a rejection unhandled
 * fail its own rollout, with code `user_code_exit` or `stray_error`, while the process continues.
 * Outside of user code `process.exit` ends the process as always.
 *
 * Not contained: `process.abort`, signals, native code, and a `process.exit` that was taken from
 * `process` before this was called.
 *
 * @returns a function that undoes it
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
  const { exit } = process // oxlint-disable-line typescript/unbound-method -- restored unchanged
  const guardedExit: typeof exit = (code) => {
    const scope = currentScope()
    if (scope === undefined) return exit(code)
    throw exitRefused(scope, code)
  }
  process.exit = guardedExit
  // For code that imports `exit` by name.
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

/** Errors thrown by `process.exit`, which may arrive again as uncaught ones. */
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
    origin === 'uncaughtException' ? 'threw an uncaught error' : 'left a rejection unhandled'
  const message = `the ${scope.part} ${did}: ${errorMessage(error)}${codePlace(error)}`
  fail(scope, new OsmosisError('stray_error', message, { cause: error }))
}

function onRejection(error: unknown): void {
  onStray(error, 'unhandledRejection')
}

function fail(scope: RolloutScope, error: OsmosisError): void {
  if (scope.fail(error)) return
  // One is enough: a rollout does not show which of several servers accepted it.
  for (const containment of containments) {
    if (containment.onLate !== undefined) return containment.onLate(scope.rolloutId, error)
  }
}

/**
 * While `isUserCode` returns true, `process.removeAllListeners` leaves the listeners of now in place: user
 * code that calls it means its own. Returns a function that undoes it.
 */
export function keepListeners(isUserCode: () => boolean): () => void {
  const before = Object.getOwnPropertyDescriptor(process, 'removeAllListeners')
  const { removeAllListeners } = process // oxlint-disable-line typescript/unbound-method -- called on it below
  const own = new Map(process.eventNames().map((name) => [name, process.rawListeners(name)]))
  const removeOthers = (...only: Parameters<typeof removeAllListeners>): NodeJS.Process => {
    if (!isUserCode()) return removeAllListeners.apply(process, only)
    for (const name of only.length === 0 ? process.eventNames() : only) {
      for (const listener of process.rawListeners(name as string)) {
        if (!own.get(name as string)?.includes(listener)) {
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

/** The reader of a pipe has exited, or a terminal was closed. */
const brokenPipes = new Set(['EPIPE', 'EIO'])
let ignoresBrokenPipe = false

/**
 * The reader of this process's output may stop reading or exit, and its disk may be full; neither the process nor the rollout
 * that printed fails because of that. A process whose standard output is lost on a disk ends with code 1. Idempotent.
 */
export function ignoreBrokenPipe(): void {
  if (ignoresBrokenPipe) return
  ignoresBrokenPipe = true
  process.stderr.on('error', () => {})
  process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    if (brokenPipes.has(code ?? '')) return
    process.stderr.write(`error: Cannot write to the standard output: ${message}\n`)
    process.once('exit', (exitCode) => (process.exitCode = exitCode || 1))
  })
}
