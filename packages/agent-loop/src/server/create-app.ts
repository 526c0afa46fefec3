import { ConcurrencyLimiter } from '@osmosis/runtime'
import { OsmosisError, type EgressOptions } from '@osmosis/core'
import type {
  CallbackRetryOptions,
  OwnershipOptions,
  ServerShell,
  ServerShellOptions,
} from '@osmosis/server'
import { createServerShell } from '@osmosis/server/protocols'

import type { Registration } from '../platform/platform-answer.ts'
import { registerServer, type RegistrationOptions } from '../platform/registration.ts'
import type { RolloutAgentLoop } from '../rollout-agent-loop.ts'
import {
  resolveSettings,
  type RolloutClientSettings,
  type RolloutSettingsInput,
} from '../settings/rollout-settings.ts'
import { AgentLoopValidationError, shapeIssues } from '../validate-agent-loop.ts'
import { loopRoutes } from './loop-routes.ts'

/** Options of {@link createApp}. */
export interface CreateAppOptions extends ServerShellOptions {
  /** Most rollouts running concurrently; others wait. Default: null, unlimited. */
  maxConcurrent?: number | null | undefined
  /** Most rollouts that may wait; more are answered 503. Default: null, any number. */
  maxQueued?: number | null | undefined
  /** How long an ended rollout is remembered. Seconds; default 3600. */
  recordTtlSeconds?: number | undefined
  /** Whatever is left out comes from the environment; see `resolveSettings`. */
  settings?: RolloutSettingsInput | undefined
  /** Folder for a trace of each rollout; it is made when needed. Default: no traces. */
  debugDir?: string | undefined
  /**
   * Where model calls and results may go. Default: anywhere but to metadata, link-local and similar
   * addresses, which are never connected to. Tools connect as they like.
   */
  egress?: EgressOptions | undefined
  /** Where it is reported which rollouts this server has; default: nowhere. */
  ownership?: OwnershipOptions | undefined
}

/** A server for one agent loop, without a port: give it to `serve` of `@osmosis/server`. */
export interface AgentLoopApp extends ServerShell {
  /**
   * Tells the platform where this server is, so that the training cluster finds it. To be called
   * when the server listens: the platform asks `/platform/health`, with the app's key, before it
   * answers. What fails for a moment is tried again, for a minute; a drain ends it. Resolves also
   * when that health check failed; nothing of this touches the serving.
   *
   * @throws OsmosisError with code `invalid_config` for options that are not valid, `unauthorized`
   * for a token that the platform does not accept, `protocol_error` for another refusal or an
   * answer that cannot be read, `platform_unreachable` or `timeout` when there was no answer,
   * `server_shutdown` when a drain came first; or the reason of `signal`
   */
  register(options: RegistrationOptions): Promise<Registration>
}

/**
 * Puts the Remote Rollout protocol in front of an agent loop. Opens nothing by itself; whoever
 * serves the app closes it.
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
      // Trainers send the key as a bearer, or alone.
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
    // A number of tries is a promise of its own, whatever time they take.
    ...(completeRolloutRetries === null
      ? {}
      : { retries: completeRolloutRetries, budgetMs: Number.POSITIVE_INFINITY }),
  }
}

/** What the shell does not check. */
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
