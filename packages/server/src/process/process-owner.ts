import { addAbortListener } from 'node:events'
import { constants } from 'node:os'

import { errorMessage } from '@osmosis/core'

import { endWhenBlocked, exitDespiteThreads } from '../containment/blocked-threads.ts'
import { containUserCode, ignoreBrokenPipe } from '../containment/contain-user-code.ts'
import type { Logger } from '../logging/logger.ts'

type Close = (options?: { waitSeconds?: number }) => Promise<void>

/** What servers of this process do on SIGHUP. */
const hangUps = new WeakSet<NodeJS.SignalsListener>()

/** User code may keep the process alive with a timer or a socket that it never closes. */
const exitAfterCloseMs = 2000

/**
 * Ties a server to the life of its process; see `handleSignals` of `serve`. Returns what undoes
 * it.
 *
 * @param lost - is aborted when the server cannot continue
 */
export function ownProcess(close: Close, logger: Logger, lost?: AbortSignal): () => void {
  let ending = false
  let closed = false
  let signalled = false
  let exitCode: number | undefined

  const stop = (waitSeconds?: number): void => {
    ending = true
    const ended = new AbortController()
    endWhenBlocked(ended.signal, 1, () => logger.error({}, 'the file system does not answer'))
    close(waitSeconds === undefined ? {} : { waitSeconds })
      .catch((error: unknown) => logger.error({ error }, 'closing failed'))
      .finally(() => {
        closed = true
        ended.abort()
        setTimeout(() => process.exit(exitCode), exitAfterCloseMs).unref()
      })
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

  // A closed terminal may send it more than once. Other listeners give the signal another meaning.
  const onHangUp = (): void => {
    const isOurs = process.listeners('SIGHUP').every((listener) => hangUps.has(listener))
    if (isOurs && !signalled) onSignal('SIGHUP')
  }
  hangUps.add(onHangUp)

  const fail = (): void => {
    exitCode = 1
    process.exitCode = exitCode
    stop(0)
  }

  ignoreBrokenPipe()
  exitDespiteThreads()
  const lostListener = lost && addAbortListener(lost, fail)
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  process.on('SIGHUP', onHangUp)
  const stopContaining = containUserCode({
    onUnattributed(error, origin) {
      logger.error(
        { error, origin },
        `an error belongs to no known rollout: ${errorMessage(error)}`,
      )
      // An error after the end must not turn a clean exit into a failure.
      if (closed || exitCode !== undefined) return
      // The process may be in any state, so it waits only for the failure callbacks.
      fail()
    },
    onLate(rolloutId, error) {
      logger.warn({ rollout_id: rolloutId, error }, `after the rollout ended, ${error.message}`)
    },
  })
  return () => {
    // Code of ended rollouts is contained until the process exits.
    if (ending) return
    lostListener?.[Symbol.dispose]()
    process.off('SIGTERM', onSignal)
    process.off('SIGINT', onSignal)
    process.off('SIGHUP', onHangUp)
    stopContaining()
  }
}
