import { constants } from 'node:os'

import { errorMessage } from '@osmosis/core'

import type { Logger } from '../logging/logger.ts'

type Close = (options?: { waitSeconds?: number }) => Promise<void>

/** User code may hold the process open with a timer or a socket that nobody ends. */
const exitAfterCloseMs = 2000

/**
 * Ties a server to the life of its process; see `handleSignals` of `serve`. Returns what undoes
 * it.
 */
export function ownProcess(close: Close, logger: Logger): () => void {
  let ending = false
  let signalled = false

  const stop = (waitSeconds?: number): void => {
    ending = true
    close(waitSeconds === undefined ? {} : { waitSeconds })
      .catch((error: unknown) => logger.error({ error }, 'closing failed'))
      .finally(() => setTimeout(() => process.exit(), exitAfterCloseMs).unref())
  }

  const onSignal = (signal: NodeJS.Signals): void => {
    if (signalled) {
      logger.warn({ signal }, 'second signal: ending at once')
      process.exit(128 + constants.signals[signal])
    }
    signalled = true
    logger.info({ signal }, 'signal received: shutting down')
    stop()
  }
  // One rollout's forgotten await must not end the others.
  const onRejection = (error: unknown): void => {
    logger.error({ error }, `unhandled rejection in user code: ${errorMessage(error)}`)
  }
  // The process may be in any state, so nothing is waited for but the failure callbacks.
  const onException = (error: unknown): void => {
    logger.error({ error }, `uncaught exception, shutting down: ${errorMessage(error)}`)
    process.exitCode = 1
    stop(0)
  }

  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  process.on('unhandledRejection', onRejection)
  process.on('uncaughtException', onException)
  return () => {
    // What ended rollouts leave behind must not turn a clean end into a failed one.
    if (ending) return
    process.off('SIGTERM', onSignal)
    process.off('SIGINT', onSignal)
    process.off('unhandledRejection', onRejection)
    process.off('uncaughtException', onException)
  }
}
