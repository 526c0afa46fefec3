import { OsmosisError } from '@osmosis/core'

import { assertApiKey } from './bearer-key.ts'
import { CallbackDelivery } from './callback-delivery.ts'
import { createStderrLogger, silentLogger, type Logger } from './logger.ts'
import { redactingLogger } from './redacting-logger.ts'
import { RolloutAdmission } from './rollout-admission.ts'
import { createRoutes } from './rollout-routes.ts'
import { RolloutRuns } from './rollout-runs.ts'
import type { RolloutServerOptions } from './rollout-server-options.ts'
import { SecretValues } from './secret-values.ts'
import type { ServableApp } from './serve.ts'
import { ServerDrain } from './server-drain.ts'

/** A rollout server without a port: a Web-standard handler, and the work behind it. */
export interface RolloutServer extends ServableApp, AsyncDisposable {
  /** Callbacks that no controller has acknowledged: on their way, refused, or given up. */
  readonly undelivered: number
  /** The server's log; secrets are removed before a line gets there. */
  readonly logger: Logger
  /**
   * Opens the outbox, once, where there is one. `serve` does it before it opens the port, `fetch`
   * before it answers.
   *
   * @throws OsmosisError with code `invalid_config` when another process uses the outbox,
   * `server_shutdown` after `drain`
   */
  start(): Promise<void>
  /**
   * Stops admitting rollouts, waits for the running ones, ends those that outlast the wait and
   * delivers their failure callbacks. Resolves when nothing is left to do; a later call waits
   * for the same end and can only shorten the wait.
   *
   * @param options - `waitSeconds` overrides `drainSeconds`
   */
  drain(options?: { waitSeconds?: number | undefined }): Promise<void>
  /** Drains, and answers 503 from then on. The same as leaving an `await using` block. */
  close(): Promise<void>
}

/**
 * Puts HTTP in front of a backend. Whoever makes a server closes it.
 *
 * @throws OsmosisError with code `invalid_config` for a key that nobody can present or a limit that is no number
 */
export function createRolloutServer(options: RolloutServerOptions): RolloutServer {
  assertOptions(options)
  const { backend, apiKey } = options
  const secrets = new SecretValues()
  secrets.add(apiKey)
  const logger = redactingLogger(chosenLogger(options.logger), secrets)
  const delivery = new CallbackDelivery({
    retry: options.callbackRetry,
    outboxDir: options.outboxDir,
    secrets,
    logger,
  })
  const runs = new RolloutRuns(backend, { delivery, logger, secrets })
  const drain = new ServerDrain(
    { backend, delivery, work: runs, logger },
    {
      waitSeconds: options.drainSeconds ?? 30,
      graceSeconds: options.shutdownGraceSeconds ?? 10,
    },
  )
  const isDraining = (): boolean => drain.started
  const app = createRoutes({
    backend,
    admission: new RolloutAdmission({ backend, runs, delivery, secrets, logger, isDraining }),
    secrets,
    logger,
    undelivered: () => delivery.undelivered,
    apiKey,
    admissionStatus: options.admissionStatus ?? 202,
    maxBodyBytes: options.maxBodyBytes ?? 64 * 1024 * 1024,
    instanceId: options.instanceId,
  })

  return {
    start: () => delivery.start(),
    fetch: async (request) => {
      if (!drain.started) await delivery.start()
      return app.fetch(request)
    },
    requiresKey: apiKey !== undefined,
    get undelivered() {
      return delivery.undelivered
    },
    logger,
    drain: ({ waitSeconds } = {}) => drain.drain(waitSeconds),
    close: () => drain.drain(),
    [Symbol.asyncDispose]: () => drain.drain(),
  }
}

function chosenLogger(logger: Logger | false | undefined): Logger {
  return logger === false ? silentLogger : (logger ?? createStderrLogger())
}

function assertOptions(options: RolloutServerOptions): void {
  assertApiKey(options.apiKey)
  for (const name of ['maxBodyBytes', 'drainSeconds', 'shutdownGraceSeconds'] as const) {
    const value = options[name]
    if (value === undefined || (Number.isFinite(value) && value >= 0)) continue
    throw new OsmosisError('invalid_config', `${name} must be a number of at least 0.`)
  }
}
