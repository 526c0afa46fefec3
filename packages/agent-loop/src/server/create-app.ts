import { ConcurrencyLimiter } from '@osmosis/server/execution'
import { OsmosisError, type EgressOptions } from '@osmosis/core'
import type {
  CallbackRetryOptions,
  OwnershipOptions,
  ServerShell,
  ServerShellOptions,
} from '@osmosis/server'
import { createServerShell } from '@osmosis/server/protocols'

import { type Registration, registerServer, type RegistrationOptions } from '../registration.ts'
import type { RolloutAgentLoop } from '../rollout-agent-loop.ts'
import {
  resolveSettings,
  type RolloutClientSettings,
  type RolloutSettingsInput,
} from '../rollout-settings.ts'
import { AgentLoopValidationError, shapeIssues } from '../validate-agent-loop.ts'
import { loopRoutes } from './loop-routes.ts'

/** Options of {@link createApp}. */
export interface CreateAppOptions extends ServerShellOptions {
  /** Maximum concurrent rollouts; others wait. Default: null, unlimited. */
  maxConcurrent?: number | null | undefined
  /** Maximum waiting rollouts; others are refused with 503. Default: null, unlimited. */
  maxQueued?: number | null | undefined
  /** How long an ended rollout is remembered. Seconds; default 3600. */
  recordTtlSeconds?: number | undefined
  /** Omitted settings come from the environment; see `resolveSettings`. */
  settings?: RolloutSettingsInput | undefined
  /** Folder for a trace of each rollout; created when needed. Default: no traces. */
  debugDir?: string | undefined
  /**
   * Allowed receivers of model calls and results. Default: all except metadata, link-local and similar
   * addresses, which are always refused. Does not apply to tools.
   */
  egress?: EgressOptions | undefined
  /** Where the server reports which rollouts it has; default: nowhere. */
  ownership?: OwnershipOptions | undefined
}

/** A server for one agent loop, without a port: pass it to `serve` of `@osmosis/server`. */
export interface AgentLoopApp extends ServerShell {
  /**
   * Registers the server with the platform, so that the training cluster finds it. Call it when the
   * server listens: the platform requests `/platform/health`, with the app's key, before it
   * answers. Temporary failures are retried for a minute; a drain ends that. It also resolves when the
   * health check failed, and it never affects serving.
   *
   * @throws OsmosisError with code `invalid_config` for options that are not valid, `unauthorized`
   * for a token that the platform does not accept, `protocol_error` for another refusal or an
   * answer that cannot be read, `platform_unreachable` or `timeout` when there was no answer,
   * `server_shutdown` when a drain came first; or the reason of `signal`
   */
  register(options: RegistrationOptions): Promise<Registration>
}

/**
 * Serves an agent loop over the Remote Rollout protocol. It opens no port; the caller closes the app.
 *
 * @throws OsmosisError with code `invalid_config` for options or settings that are not valid;
 * AgentLoopValidationError (`invalid_entrypoint`) for a loop without a name
 */
export function createApp(loop: RolloutAgentLoop, options: CreateAppOptions = {}): AgentLoopApp {
  assertOptions(options)
  const problems = shapeIssues(loop)
  if (problems.length > 0) throw new AgentLoopValidationError(problems)
  const settings = resolveSettings(options.settings)
  const { debugDir, maxQueued = null } = options
  const [apiKey] = [options.apiKey].flat()
  const { maxConcurrent = settings.server.maxConcurrentRollouts } = options
  const { recordTtlSeconds = settings.server.recordTtlSeconds } = options

  const shell = createServerShell(
    { ...options, callbackRetry: retryOf(settings.client) },
    (services) => ({
      title: `Osmosis RolloutServer (${loop.name})`,
      unauthorized: 'Invalid or missing API key',
      // Trainers send the key with or without `Bearer`.
      acceptsBareKey: true,
      ...loopRoutes(
        {
          loop,
          settings,
          limiter: new ConcurrencyLimiter(maxConcurrent),
          maxQueued,
          rememberMs: recordTtlSeconds * 1000,
          requiresKey: apiKey !== undefined,
          traces: debugDir === undefined ? null : { folder: debugDir, ...services },
          ownership: options.ownership,
        },
        services,
      ),
    }),
  )
  return Object.assign(shell, {
    register: async (registration: RegistrationOptions): Promise<Registration> =>
      registerServer(registration, {
        agentLoopName: loop.name,
        apiKey,
        logger: shell.logger,
        signal: shell.ending,
      }),
  })
}

function retryOf(client: RolloutClientSettings): CallbackRetryOptions {
  const { completeRolloutRetries } = client
  return {
    attemptTimeoutMs: client.timeoutSeconds * 1000,
    minDelayMs: client.retryBaseDelaySeconds * 1000,
    maxDelayMs: client.retryMaxDelaySeconds * 1000,
    // With a number of retries, there is no time limit.
    ...(completeRolloutRetries === null
      ? {}
      : { retries: completeRolloutRetries, budgetMs: Number.POSITIVE_INFINITY }),
  }
}

/** Checks the options that the shell does not check. */
function assertOptions({ maxConcurrent, maxQueued, recordTtlSeconds }: CreateAppOptions): void {
  assertLimit('maxConcurrent', maxConcurrent, (value) => Number.isInteger(value) && value >= 1)
  assertLimit('maxQueued', maxQueued, (value) => Number.isInteger(value) && value >= 0)
  assertLimit('recordTtlSeconds', recordTtlSeconds, (value) => Number.isFinite(value) && value > 0)
}

function assertLimit(
  name: keyof CreateAppOptions,
  value: number | null | undefined,
  isGood: (value: number) => boolean,
): void {
  if (value === undefined || value === null || isGood(value)) return
  throw new OsmosisError('invalid_config', `${name} cannot be ${value}.`)
}
