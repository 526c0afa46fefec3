import {
  createStderrLogger,
  serve,
  type ListeningServer,
  type Logger,
  type ServableApp,
} from '@osmosis/server'

import type { LogFlags } from '../command/flags.ts'
import { endSignal, standardError } from '../command/surroundings.ts'

/** Listens until the end signal of the command, or a signal of the process, closes the server. */
export async function listen(
  app: ServableApp,
  { port, host, auth = false }: { port: number; host: string; auth?: boolean },
): Promise<ListeningServer> {
  const signal = endSignal()
  return serve(app, {
    port,
    host,
    allowUnauthenticated: !auth,
    signal,
    handleSignals: signal === undefined,
  })
}

/** The log of a command, on its stderr. */
export function commandLogger({
  logLevel: level,
  logFormat: format,
}: Pick<LogFlags, 'logLevel' | 'logFormat'>): Logger {
  const output = standardError()
  // The log of the process is written without blocking when its reader stops reading.
  return createStderrLogger({ level, format, ...(output === process.stderr ? {} : { output }) })
}
