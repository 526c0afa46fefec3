import { OsmosisError } from '@osmosis/core'
import { endSignal, printError, withSurroundings } from './surroundings.ts'

/** A signal that Ctrl-C (or SIGTERM) aborts. The second time the process ends at once. */
export function abortOnInterrupt(): { signal: AbortSignal; release: () => void } {
  const abort = new AbortController()
  const onSignal = withSurroundings((): void => {
    if (abort.signal.aborted) process.exit(interruptedExitCode)
    printError('\nStopping: cancelling what runs. Press Ctrl-C again to stop at once.\n')
    abort.abort(new OsmosisError('cancelled', 'interrupted'))
  })
  const given = endSignal()
  if (given !== undefined) {
    if (given.aborted) onSignal()
    else given.addEventListener('abort', onSignal, { once: true })
    return { signal: abort.signal, release: () => given.removeEventListener('abort', onSignal) }
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  return {
    signal: abort.signal,
    release: () => {
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
    },
  }
}

/** What shells expect of a program that Ctrl-C ended. */
export const interruptedExitCode = 130
