import { OsmosisError, type EgressOptions, type PromptMessage } from '@osmosis/core'
import { type EgressPolicy, isJsonObject } from '@osmosis/core/http'
import {
  loopInitResponseSchema,
  type LoopInitRequestBody,
  type LoopInitResponseBody,
  loopInitRequestSchema,
} from '@osmosis/protocol/wire'
import type {
  CallbackRetryOptions,
  OwnershipOptions,
  ServerShell,
  ServerShellOptions,
} from '@osmosis/server'
import { ConcurrencyLimiter } from '@osmosis/server/execution'
import {
  Admission,
  createServerShell,
  HttpRefusal,
  jsonAnswer,
  jsonTextAnswer,
  OwnershipLog,
  reachableUrl,
  refusals,
  showBackend,
  traceHeadersOf,
  withExactData,
  type OutboxRecord,
  type ServerProtocol,
  type ServerRoute,
  type ServerServices,
} from '@osmosis/server/protocols'
import { z } from 'zod'

import { type Registration, registerServer, type RegistrationOptions } from '../registration.ts'
import type { RolloutAgentLoop, RolloutRequest } from '../rollout-agent-loop.ts'
import {
  resolveSettings,
  type RolloutClientSettings,
  type RolloutSettings,
  type RolloutSettingsInput,
} from '../rollout-settings.ts'
import { pythonJson } from '../tools/python-text.ts'
import {
  AgentLoopValidationError,
  formatIssue,
  loadTools,
  shapeIssues,
} from '../validate-agent-loop.ts'
import { interruptedCallback, RolloutRun, type AcceptedRollout } from './rollout-run.ts'

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
  const problems = [...shapeIssues(loop)]
  if (problems.length > 0) throw new AgentLoopValidationError(problems)
  const settings = resolveSettings(options.settings)
  const [apiKey] = [options.apiKey].flat()
  const shell = createServerShell(
    { ...options, callbackRetry: retryOf(settings.client) },
    (services) => ({
      title: `Osmosis RolloutServer (${loop.name})`,
      unauthorized: 'Invalid or missing API key',
      // Trainers send the key with or without `Bearer`.
      acceptsBareKey: true,
      ...loopProtocol(loop, options, settings, services),
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

/** The routes of the Remote Rollout protocol, and the end of their rollouts. */
function loopProtocol(
  loop: RolloutAgentLoop,
  options: CreateAppOptions,
  settings: RolloutSettings,
  services: ServerServices,
): Pick<ServerProtocol, 'routes' | 'endWork' | 'resume' | 'settle'> {
  const { maxQueued = null, debugDir: traceFolder } = options
  const { maxConcurrent = settings.server.maxConcurrentRollouts } = options
  const { recordTtlSeconds = settings.server.recordTtlSeconds } = options
  const limiter = new ConcurrencyLimiter(maxConcurrent)
  const { delivery, egress, work, secrets, logger, metrics, ending } = services
  showBackend(metrics, { load: () => limiter })
  metrics.callbacks.expect('completed')
  const running = new Set<RolloutRun>()
  const ownership = options.ownership && new OwnershipLog(options.ownership, logger)
  const onUnknownParameters = warnOnce(services)
  const shared = {
    loop,
    settings,
    ...services,
    limiter,
    traceFolder,
    ownership,
    onUnknownParameters,
  }
  const admission = new Admission(services, {
    // With a free place nothing has to wait.
    isFull: () =>
      maxQueued !== null &&
      maxConcurrent !== null &&
      limiter.running >= maxConcurrent &&
      limiter.queued >= maxQueued,
    fullStatus: 503,
    otherBody: 'ignore',
    rememberMs: recordTtlSeconds * 1000,
  })

  /** Runs a rollout; resolves when its result is delivered or stored. */
  async function run(rollout: AcceptedRollout, record: OutboxRecord | undefined): Promise<void> {
    const started = new RolloutRun(shared, rollout)
    running.add(started)
    await started.inTrace(async () =>
      delivery.deliver(await started.finish(), record && { record }),
    )
    running.delete(started)
  }

  const init: ServerRoute<LoopInitRequestBody> = {
    method: 'POST',
    path: '/v1/rollout/init',
    summary: 'Accept one rollout; its result goes to /v1/rollout/completed of server_url',
    body: {
      schema: initBodySchema(settings.maxMetadataSizeBytes, egress),
      lists: { messages: isJsonObject },
    },
    answers: {
      202: { description: 'Accepted, now or before', schema: loopInitResponseSchema },
      500: { description: 'The agent loop has no usable tools; the request may be repeated' },
      503: { description: 'Shutting down, or full; Retry-After says when to retry' },
    },
    async handle(c, given, text) {
      const body = withExactData(given, text, ['messages', 'metadata'])
      const request = toRolloutRequest(body)
      const { rolloutId, idempotencyKey } = request
      const apiKey = body.api_key || null
      const traceHeaders = traceHeadersOf(c)
      const answer = await admission.admit({
        rolloutId,
        // Prefixed, because a rollout id and an idempotency key may have the same text.
        key: idempotencyKey === null ? `rollout ${rolloutId}` : `key ${idempotencyKey}`,
        body,
        secrets: [apiKey],
        async prepare() {
          const { timeoutSeconds: seconds } = settings.client
          const { tools, issues } = await loadTools(loop, request, { seconds, ending })
          if (ending.aborted) throw refusals.ending()
          const errors = issues.filter(({ severity }) => severity === 'error')
          if (errors.length > 0) {
            const detail = secrets.redact(errors.map(formatIssue).join('; '))
            logger.error({ rollout_id: rolloutId }, `no tools for a rollout: ${detail}`)
            throw new HttpRefusal(500, detail)
          }
          return {
            answer: JSON.stringify({ rollout_id: rolloutId, tools } satisfies LoopInitResponseBody),
            ifInterrupted: () => [interruptedCallback({ request, apiKey })],
            run: (record) => run({ request, tools, apiKey, traceHeaders }, record),
          }
        },
      })
      return jsonTextAnswer(answer, 202)
    },
  }

  const health: Pick<ServerRoute, 'method' | 'summary' | 'answers' | 'handle'> = {
    method: 'GET',
    summary: 'Whether the server is up, and how busy it is',
    answers: { 200: { description: 'Up', schema: healthSchema } },
    handle: () =>
      jsonAnswer({
        status: 'healthy',
        agent_loop: loop.name,
        active_rollouts: work.count,
        queued_rollouts: limiter.queued,
        completed_rollouts: admission.endedCount,
        undelivered: delivery.undelivered,
      } satisfies z.infer<typeof healthSchema>),
  }

  /** The platform uses it to check the key; without a key there is nothing to check. */
  const platformHealth: ServerRoute['handle'] = (c) => {
    if ([options.apiKey].flat()[0] === undefined) throw new HttpRefusal(404, 'Not found')
    return health.handle(c, undefined, '')
  }

  return {
    routes: [
      init,
      { ...health, path: '/health', open: true },
      { ...health, path: '/platform/health', handle: platformHealth },
    ],
    resume: (left) => admission.resume(left),
    endWork() {
      const reason = new OsmosisError('server_shutdown', 'rollout server shut down')
      for (const started of running) started.abort(reason)
    },
    settle: async () => ownership?.close(),
  }
}

const healthSchema = z.object({
  status: z.literal('healthy'),
  agent_loop: z.string(),
  active_rollouts: z.int(),
  queued_rollouts: z.int(),
  completed_rollouts: z.int(),
  undelivered: z.int(),
})

/** Thousands of rollouts pass the same parameters. */
function warnOnce({ logger }: Pick<ServerServices, 'logger'>): (names: readonly string[]) => void {
  const warned = new Set<string>()
  return (names) => {
    for (const name of names) {
      if (warned.has(name) || warned.size >= 100) continue
      warned.add(name)
      logger.warn({ parameter: name }, 'a parameter of ctx.chat is not part of the protocol')
    }
  }
}

type InitSchema = typeof loopInitRequestSchema

/**
 * The schema of one server: with a limit on metadata, and only trainers that it may connect to.
 *
 * @param maxMetadataBytes - as Python JSON text, which escapes all characters beyond ASCII
 */
function initBodySchema(maxMetadataBytes: number, egress: EgressPolicy): InitSchema {
  const { metadata, server_url } = loopInitRequestSchema.shape
  const limited = metadata
    .unwrap()
    .refine(
      (value) => fits(value, maxMetadataBytes),
      `metadata must have a JSON text of at most ${maxMetadataBytes} bytes`,
    )
  return loopInitRequestSchema.extend({
    metadata: limited.default({}),
    server_url: reachableUrl(server_url, egress),
  })
}

/** The rollout that a body requests, as user code sees it: without the key. */
function toRolloutRequest(body: LoopInitRequestBody): RolloutRequest {
  return {
    rolloutId: body.rollout_id,
    serverUrl: body.server_url,
    messages: body.messages as PromptMessage[],
    completionParams: body.completion_params,
    toolServerUrl: body.tool_server_url ?? null,
    maxTurns: body.max_turns,
    maxTokensTotal: body.max_tokens_total,
    metadata: body.metadata,
    idempotencyKey: body.idempotency_key || null,
  }
}

function fits(metadata: object, maxBytes: number): boolean {
  if (Object.keys(metadata).length === 0) return true
  try {
    return pythonJson(metadata).length <= maxBytes
  } catch {
    // Nested too deeply for the recursion.
    return false
  }
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
  assertCount('maxConcurrent', maxConcurrent, 1)
  assertCount('maxQueued', maxQueued, 0)
  if (recordTtlSeconds === undefined) return
  if (Number.isFinite(recordTtlSeconds) && recordTtlSeconds > 0) return
  throw new OsmosisError(
    'invalid_config',
    `recordTtlSeconds must be a number above 0, got ${recordTtlSeconds}.`,
  )
}

function assertCount(name: string, value: number | null | undefined, least: number): void {
  if (value === undefined || value === null || (Number.isInteger(value) && value >= least)) return
  throw new OsmosisError(
    'invalid_config',
    `${name} must be a whole number of at least ${least}, or null for no limit; got ${value}.`,
  )
}
