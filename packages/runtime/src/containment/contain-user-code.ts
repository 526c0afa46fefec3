import { syncBuiltinESMExports } from 'node:module'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { codePlace } from './code-place.ts'
import { keepListeners } from './keep-listeners.ts'
import { currentScope, type RolloutScope } from './rollout-scope.ts'
import { shareSockets } from './shared-sockets.ts'
import { thrownIn, watchThrows } from './thrown-in.ts'

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
 * fail its own rollout, with code `user_code_exit` or `stray_error`, while the process goes on.
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
  const undo = [watchThrows(), shareSockets(), keepListeners(isUserCode)]
  return () => {
    process.off('uncaughtException', onStray)
    process.off('unhandledRejection', onRejection)
    for (const part of undo) part()
    if (process.exit === guardedExit) process.exit = exit
    syncBuiltinESMExports()
  }
}

function isUserCode(): boolean {
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
