import { createStderrLogger, type Logger, type ServeOptions } from '@osmosis/server'
import { ownProcess } from '@osmosis/server/protocols'

import type { ProcessFlags } from '../command/flags.ts'
import { endSignal, standardError } from '../command/surroundings.ts'

/** What ends a server of this command. */
export function serverEnd(): Pick<ServeOptions, 'signal' | 'handleSignals'> {
  const signal = endSignal()
  return { signal, handleSignals: signal === undefined }
}

/**
 * Has what has no port of its own closed by what ends this command: the signals of the process, or the
 * signal of the command. Returns a promise of the end for the latter.
 */
export function ownEnd(
  close: Parameters<typeof ownProcess>[0],
  logger: Logger,
): Promise<void> | undefined {
  const signal = endSignal()
  if (signal === undefined) {
    ownProcess(close, logger)
    return undefined
  }
  return new Promise((resolve, reject) => {
    const onAbort = (): void => void close().then(resolve, reject)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  })
}

/** The log of a command, on its stderr. */
export function commandLogger({
  logLevel: level,
  logFormat: format,
}: Pick<ProcessFlags, 'logLevel' | 'logFormat'>): Logger {
  const output = standardError()
  // That of the process is written to in a way that holds up nothing when its reader stops.
  return createStderrLogger({ level, format, ...(output === process.stderr ? {} : { output }) })
}
