import { OsmosisError, type PromptMessage } from '@osmosis/core'
import type { EgressPolicy } from '@osmosis/core/http'
import type { ConcurrencyLimiter } from '@osmosis/server/execution'
import {
  loopInitResponseSchema,
  type LoopInitRequestBody,
  type LoopInitResponseBody,
  loopInitRequestSchema,
} from '@osmosis/protocol/wire'
import type { OwnershipOptions } from '@osmosis/server'
import {
  Admission,
  HttpRefusal,
  isJsonObject,
  jsonAnswer,
  jsonTextAnswer,
  OwnershipLog,
  traceHeadersOf,
  type OutboxRecord,
  type ServerProtocol,
  type ServerRoute,
  type ServerServices,
  reachableUrl,
} from '@osmosis/server/protocols'
import { z } from 'zod'

import type { RolloutAgentLoop, RolloutRequest } from '../rollout-agent-loop.ts'
import type { RolloutSettings } from '../rollout-settings.ts'
import { formatIssue } from '../tools/function-tool.ts'
import { pythonJson } from '../tools/python-text.ts'
import { loadTools } from '../validate-agent-loop.ts'
import type { TraceFolder } from './event-trace.ts'
import { interruptedCallback, RolloutRun, type AcceptedRollout } from './rollout-run.ts'

/** Options of the protocol of agent loops. */
export interface LoopProtocolOptions {
  readonly loop: RolloutAgentLoop
  readonly settings: RolloutSettings
  /** Assigns the slots. */
  readonly limiter: ConcurrencyLimiter
  /** Null: no limit for waiting rollouts. */
  readonly maxQueued: number | null
  /** How long an ended rollout is remembered. Milliseconds. */
  readonly rememberMs: number
  /** Whether callers must present a key; otherwise `/platform/health` is 404. */
  readonly requiresKey: boolean
  /** Null: traces are off. */
  readonly traces: TraceFolder | null
  /** Where the server reports which rollouts it has; undefined: nowhere. */
  readonly ownership: OwnershipOptions | undefined
}

/** The routes of the Remote Rollout protocol, and the end of their rollouts. */
export function loopRoutes(
  options: LoopProtocolOptions,
  services: ServerServices,
): Pick<ServerProtocol, 'routes' | 'endWork' | 'resume' | 'settle'> {
  const { loop, limiter, maxQueued } = options
  const { delivery, egress, work, secrets, logger, metrics } = services
  metrics.gauges(
    'osmosis_rollouts',
    'Rollouts: queued for a slot, or running in one.',
    'state',
    () => ({ queued: limiter.queued, running: limiter.running }),
  )
  metrics.gauge(
    'osmosis_rollout_slots',
    'How many rollouts may run concurrently; +Inf when there is no limit.',
    () => limiter.maxConcurrent ?? Number.POSITIVE_INFINITY,
  )
  metrics.callbacks.expect('completed')
  const running = new Set<RolloutRun>()
  const ownership = options.ownership && new OwnershipLog(options.ownership, logger)
  const shared = { ...options, ...services, ownership, onUnknownParameters: warnOnce(services) }
  const admission = new Admission(services, {
    isFull: () => maxQueued !== null && limiter.queued >= maxQueued,
    fullStatus: 503,
    otherBody: 'ignore',
    rememberMs: options.rememberMs,
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
      schema: initBodySchema(options.settings.maxMetadataSizeBytes, egress),
      lists: { messages: isJsonObject },
    },
    answers: {
      202: { description: 'Accepted, now or before', schema: loopInitResponseSchema },
      500: { description: 'The agent loop has no usable tools; the request may be repeated' },
      503: { description: 'Shutting down, or full; Retry-After says when to retry' },
    },
    async handle(c, body) {
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
          const { tools, issues } = await loadTools(loop, request)
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
    if (!options.requiresKey) throw new HttpRefusal(404, 'Not found')
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
