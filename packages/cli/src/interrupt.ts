import { OsmosisError } from '@osmosis/core'

/** A signal that Ctrl-C (or SIGTERM) aborts. The second time the process ends at once. */
export function abortOnInterrupt(): { signal: AbortSignal; release: () => void } {
  const abort = new AbortController()
  const onSignal = (): void => {
    if (abort.signal.aborted) process.exit(interruptedExitCode)
    process.stderr.write('\nStopping: cancelling what runs. Press Ctrl-C again to stop at once.\n')
    abort.abort(new OsmosisError('cancelled', 'interrupted'))
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
