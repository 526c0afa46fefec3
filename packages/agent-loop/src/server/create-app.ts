import { ConcurrencyLimiter } from '@osmosis/core'
import { createStderrLogger, silentLogger, type Logger, type ServableApp } from '@osmosis/server'
import {
  CallbackDelivery,
  type CallbackDeliveryOptions,
  redactingLogger,
  SecretValues,
  ServerDrain,
} from '@osmosis/server/parts'

import type { RolloutAgentLoop } from '../rollout-agent-loop.ts'
import { resolveSettings, type RolloutSettings } from '../settings/rollout-settings.ts'
import { AgentLoopValidationError, shapeIssues } from '../validate-agent-loop.ts'
import { AppLife } from './app-life.ts'
import { assertAppOptions, type CreateAppOptions } from './app-options.ts'
import { createRoutes } from './app-routes.ts'
import { InitAdmission } from './init-admission.ts'
import { initBodySchema } from './init-body.ts'
import { registerServer } from './registration.ts'
import type { Registration } from './registration-answer.ts'
import type { RegistrationOptions } from './registration-options.ts'
import { RolloutRecords } from './rollout-records.ts'
import { RolloutRuns } from './rollout-runs.ts'

/** A server for one agent loop, without a port: give it to `serve` of `@osmosis/server`. */
export interface AgentLoopApp extends ServableApp, AsyncDisposable {
  /** Results that no trainer has acknowledged: on their way, refused, or given up. */
  readonly undelivered: number
  /** Opens the outbox and runs `onStartup`, once. `serve` does it before it opens the port, `fetch` before it answers. */
  start(): Promise<void>
  /**
   * Tells the platform where this server is, so that the training cluster finds it. To be called
   * when the server listens: the platform asks `/platform/health`, with the app's key, before it
   * answers. What fails for a moment is tried again, for a minute; a drain ends it. Resolves also
   * when that health check failed; nothing of this touches the serving.
   *
   * @throws OsmosisError with code `invalid_config` for options that cannot be, `unauthorized` for
   * a token that the platform does not accept, `protocol_error` for another refusal or an answer
   * that is none, `platform_unreachable` or `timeout` when there was no answer, `server_shutdown`
   * when a drain came first; or the reason of `signal`
   */
  register(options: RegistrationOptions): Promise<Registration>
  /**
   * Stops taking rollouts, waits for the running ones, ends those that outlast the wait, delivers
   * their results, then runs `onShutdown`. A later call waits for the same end.
   *
   * @param options - `waitSeconds` overrides `drainSeconds`
   */
  drain(options?: { waitSeconds?: number | undefined }): Promise<void>
  /** Drains. The same as leaving an `await using` block. */
  close(): Promise<void>
}

/**
 * Puts the Remote Rollout protocol in front of an agent loop. Opens nothing by itself; whoever
 * serves the app closes it.
 *
 * @throws OsmosisError with code `invalid_config` for options or settings that cannot be;
 * AgentLoopValidationError (`invalid_entrypoint`) for a loop without a name
 */
export function createApp(loop: RolloutAgentLoop, options: CreateAppOptions = {}): AgentLoopApp {
  assertAppOptions(options)
  const problems = shapeIssues(loop)
  if (problems.length > 0) throw new AgentLoopValidationError(problems)
  const settings = resolveSettings(options.settings)
  const { apiKey, maxConcurrent = settings.server.maxConcurrentRollouts } = options

  const secrets = new SecretValues()
  secrets.add(apiKey)
  const logger = redactingLogger(chosenLogger(options.logger), secrets)
  const delivery = createDelivery(settings, { outboxDir: options.outboxDir, secrets, logger })
  const limiter = new ConcurrencyLimiter(maxConcurrent)
  const { debugDir } = options
  const traces = debugDir === undefined ? null : { folder: debugDir, secrets, logger }
  const onUnknownParameters = warnOnce(logger)
  const runs = new RolloutRuns(
    { loop, settings, limiter, secrets, logger, traces, onUnknownParameters },
    delivery,
  )
  const drain = new ServerDrain(
    { backend: runs, delivery, work: runs, logger },
    { waitSeconds: options.drainSeconds ?? 30, graceSeconds: options.shutdownGraceSeconds ?? 10 },
  )
  const ttlSeconds = options.recordTtlSeconds ?? settings.server.recordTtlSeconds
  const records = new RolloutRecords(ttlSeconds * 1000)
  const life = new AppLife({ delivery, drain }, options)
  const maxMetadataBytes = settings.maxMetadataSizeBytes
  const routes = createRoutes({
    admission: new InitAdmission({
      loop,
      records,
      runs,
      delivery,
      limiter,
      maxQueued: options.maxQueued ?? null,
      maxMetadataBytes,
      secrets,
      logger,
      isDraining: () => drain.started,
    }),
    health: () => ({
      status: 'healthy',
      agent_loop: loop.name,
      active_rollouts: runs.count,
      queued_rollouts: limiter.queued,
      completed_rollouts: records.endedCount,
      undelivered: delivery.undelivered,
    }),
    initSchema: initBodySchema(maxMetadataBytes),
    apiKey,
    maxBodyBytes: options.maxBodyBytes ?? 64 * 1024 * 1024,
    logger,
  })

  return {
    fetch: async (request) => {
      if (!drain.started) await life.start()
      return routes.fetch(request)
    },
    requiresKey: apiKey !== undefined,
    logger,
    get undelivered() {
      return delivery.undelivered
    },
    start: () => life.start(),
    register: async (registration) => {
      const server = { agentLoopName: loop.name, apiKey, logger, signal: life.ending }
      return registerServer(registration, server)
    },
    drain: ({ waitSeconds } = {}) => life.end(waitSeconds),
    close: () => life.end(),
    [Symbol.asyncDispose]: () => life.end(),
  }
}

function createDelivery(
  { client }: RolloutSettings,
  options: Omit<CallbackDeliveryOptions, 'retry'>,
): CallbackDelivery {
  const { completeRolloutRetries } = client
  return new CallbackDelivery({
    ...options,
    retry: {
      attemptTimeoutMs: client.timeoutSeconds * 1000,
      minDelayMs: client.retryBaseDelay * 1000,
      maxDelayMs: client.retryMaxDelay * 1000,
      // A number of tries is a promise of its own, whatever time they take.
      ...(completeRolloutRetries === null
        ? {}
        : { retries: completeRolloutRetries, budgetMs: Number.POSITIVE_INFINITY }),
    },
  })
}

function chosenLogger(logger: Logger | false | undefined): Logger {
  return logger === false ? silentLogger : (logger ?? createStderrLogger())
}

/** Rollouts by the thousand pass the same parameters. */
function warnOnce(logger: Logger): (names: readonly string[]) => void {
  const warned = new Set<string>()
  return (names) => {
    for (const name of names) {
      if (warned.has(name) || warned.size >= 100) continue
      warned.add(name)
      logger.warn({ parameter: name }, 'a parameter of ctx.chat is not part of the protocol')
    }
  }
}
