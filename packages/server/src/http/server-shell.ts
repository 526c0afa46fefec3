import { OpenAPIHono, z } from '@hono/zod-openapi'
import { errorMessage, OsmosisError } from '@osmosis/core'
import { EgressPolicy, type EgressOptions } from '@osmosis/core/http'
import type { Context } from 'hono'

import { CallbackDelivery, type CallbackRetryOptions } from '../delivery/callback-delivery.ts'
import { Outbox, type Leftovers } from '../delivery/outbox.ts'
import { createStderrLogger, silentLogger, type Logger } from '../logging/logger.ts'
import { redactingLogger } from '../logging/redacting-logger.ts'
import { SecretValues } from '../logging/secret-values.ts'
import { ServerMetrics } from '../metrics/server-metrics.ts'
import { RunningWork } from '../work/running-work.ts'
import { ServerLife, type LifeHooks } from '../work/server-life.ts'
import { ApiKeys } from './api-keys.ts'
import { HttpRefusal } from './http-refusal.ts'
import { metricsRoute, showShared } from './metrics-route.ts'
import { describeRoutes } from './openapi-document.ts'
import { checkBody, readJsonBody } from './request-body.ts'
import { giveAnswer, jsonAnswer, type RouteAnswer } from './route-answer.ts'
import type { ServableApp } from './serve.ts'
import type { ServerRoute } from './server-route.ts'

/** Options of every server. */
export interface ServerShellOptions extends LifeHooks {
  /**
   * Key that callers must present as a bearer, but for open routes; of several any one. Default: none is
   * asked for.
   */
  apiKey?: string | readonly string[] | undefined
  /** Largest request body. Bytes; default 64 MiB. */
  maxBodyBytes?: number | undefined
  /**
   * Folder that keeps what was accepted until it is told in full: what this process could not
   * deliver, whatever ended it, the next one with the same folder delivers, and tells of rollouts
   * that were in progress that they failed. Holds the keys that results are sent with. Default:
   * rollouts and results end with the process.
   */
  outboxDir?: string | undefined
  /** How long a drain waits for running rollouts before it ends them. Seconds; default 30. */
  drainSeconds?: number | undefined
  /** How long the results of ended rollouts may take to deliver. Seconds; default 10. */
  shutdownGraceSeconds?: number | undefined
  /** Where log lines go; default: JSON lines on stderr; false: nowhere. */
  logger?: Logger | false | undefined
}

/** What a protocol builds on. */
export interface ServerServices {
  readonly delivery: CallbackDelivery
  /** Undefined: what was accepted ends with the process. */
  readonly outbox: Outbox | undefined
  /** Where the server may connect to. */
  readonly egress: EgressPolicy
  readonly work: RunningWork
  readonly secrets: SecretValues
  /** Secrets are removed before a line is written. */
  readonly logger: Logger
  /** What `/metrics` shows. */
  readonly metrics: ServerMetrics
  /** Aborted when the server begins to end: nothing new is taken from then on. */
  readonly ending: AbortSignal
}

/** A rollout protocol, as the shell serves it. */
export interface ServerProtocol {
  /** For the OpenAPI document. */
  readonly title: string
  readonly routes: readonly ServerRoute[]
  /** Fails everything that is still running because the process is about to end. */
  readonly endWork: () => void
  /** Takes up what earlier processes left in the outbox; called once, before the first request. */
  readonly resume: (left: Leftovers) => void
  /**
   * Waits for results that callers fetch by themselves; the work has ended by then. Default: there
   * are none.
   */
  readonly settle?: (longestMs: number) => Promise<void>
  /** Rollouts that were accepted and are not over, for `/metrics`. Default: those of this process. */
  readonly inFlight?: () => number | Promise<number>
  /** What callers without the key are answered, beside the status 401. */
  readonly unauthorized: string
  /** Whether the key may also come without `Bearer` in front of it; default false. */
  readonly acceptsBareKey?: boolean
}

/** A server without a port: a Web-standard handler, and the work behind it. */
export interface ServerShell extends ServableApp, AsyncDisposable {
  /** Results that are still to be told: on their way, or given up for now and kept in the outbox. */
  readonly undelivered: number
  /** The server's log; secrets are removed before a line gets there. */
  readonly logger: Logger
  /** Aborted when the server begins to end. */
  readonly ending: AbortSignal
  /** Aborted when another server has taken the outbox over; this one ends, and tells nothing more. */
  readonly lost: AbortSignal
  /**
   * Callers must present one of these keys from now on, and the earlier ones no longer count.
   *
   * @throws OsmosisError with code `invalid_config` for a key that nobody can present, no key at all,
   * and a server that was made without one
   */
  replaceApiKeys(keys: string | readonly string[]): void
  /**
   * Opens the outbox, where there is one, and runs `onStartup`, once. `serve` does it before it
   * opens the port, `fetch` before it answers.
   *
   * @throws OsmosisError with code `invalid_config` when another process uses the outbox,
   * `server_shutdown` after `drain`; what `onStartup` throws
   */
  start(): Promise<void>
  /**
   * Stops taking rollouts, waits for the running ones, ends those that outlast the wait, delivers
   * their results, then runs `onShutdown`. Resolves when nothing is left to do; a later call waits
   * for the same end and can only shorten the wait.
   *
   * @param options - `waitSeconds` overrides `drainSeconds`
   */
  drain(options?: { waitSeconds?: number | undefined }): Promise<void>
  /** Drains, and answers 503 from then on. The same as leaving an `await using` block. */
  close(): Promise<void>
}

/**
 * Everything that servers of all rollout protocols have in common, around the routes of one:
 * key, body limits, JSON, errors, OpenAPI document, start and drain, delivery, log, secrets. Opens
 * nothing by itself; whoever makes one closes it.
 *
 * @param toProtocol - builds the protocol on what the shell has
 * @throws OsmosisError with code `invalid_config` for a key that nobody can present, a limit that is
 * not a number of at least 0, an outbox without a name, or hosts that cannot be read
 */
export function createServerShell(
  options: ServerShellOptions & {
    callbackRetry?: CallbackRetryOptions | undefined
    egress?: EgressOptions | undefined
  },
  toProtocol: (services: ServerServices) => ServerProtocol,
): ServerShell {
  assertOptions(options)
  const { drainSeconds = 30, shutdownGraceSeconds = 10 } = options
  const secrets = new SecretValues()
  const keys = new ApiKeys(options.apiKey, secrets)
  const logger =
    options.logger === false
      ? silentLogger
      : redactingLogger(options.logger ?? createStderrLogger(), secrets)
  const egress = EgressPolicy.of(options.egress)
  const metrics = new ServerMetrics()
  const delivery = new CallbackDelivery({
    retry: options.callbackRetry,
    egress,
    logger,
    figures: metrics.callbacks,
  })
  const { outboxDir } = options
  const lost = new AbortController()
  const onLost = (reason: OsmosisError): void => {
    logger.error({ outbox: outboxDir, error: reason }, reason.message)
    lost.abort(reason)
    end(0).catch((error: unknown) => logger.error({ error }, 'closing failed'))
  }
  const outbox = outboxDir === undefined ? undefined : new Outbox(outboxDir, logger, { onLost })
  const work = new RunningWork()
  const ending = new AbortController()
  const services = {
    delivery,
    egress,
    outbox,
    work,
    secrets,
    logger,
    metrics,
    ending: ending.signal,
  }
  const protocol = toProtocol(services)
  showShared(metrics, { inFlight: () => work.count, ...services, ...protocol })
  const life = new ServerLife(
    { ...protocol, delivery, outbox, work, logger },
    { waitSeconds: drainSeconds, graceSeconds: shutdownGraceSeconds },
    options,
    ending,
  )
  const { maxBodyBytes = 64 * 1024 * 1024 } = options
  const app = createApp(protocol, { keys, maxBodyBytes, logger, metrics })
  const end = async (waitSeconds?: number): Promise<void> => {
    await life.end(waitSeconds)
    metrics.close()
  }
  return {
    fetch: async (request, host) => {
      // While it ends it still answers: with 503, and to those who ask for its health.
      if (!ending.signal.aborted) await life.start()
      return app.fetch(request, host)
    },
    requiresKey: keys.required,
    replaceApiKeys: (next) => keys.replace(next),
    get undelivered() {
      return delivery.undelivered
    },
    logger,
    ending: ending.signal,
    lost: lost.signal,
    start: () => life.start(),
    drain: ({ waitSeconds } = {}) => end(waitSeconds),
    close: () => end(),
    [Symbol.asyncDispose]: () => end(),
  }
}

interface AppParts {
  readonly keys: ApiKeys
  /** Bytes. */
  readonly maxBodyBytes: number
  readonly logger: Logger
  readonly metrics: ServerMetrics
}

function createApp(protocol: ServerProtocol, parts: AppParts): OpenAPIHono {
  const { keys, maxBodyBytes, logger, metrics } = parts
  const { acceptsBareKey: bare = false, unauthorized } = protocol
  const app = new OpenAPIHono()
  const routes = [...protocol.routes, metricsRoute(metrics), documentRoute(app, protocol.title)]

  /**
   * Everything around a route is in its one handler: with middleware, Hono would put several promises
   * and objects around each.
   */
  const answering = (
    { path, open = false }: Pick<ServerRoute, 'path' | 'open'>,
    toAnswer: (c: Context) => RouteAnswer | Promise<RouteAnswer>,
  ): ((c: Context) => Promise<Response>) => {
    return async (c) => {
      let answer: RouteAnswer
      try {
        const key = c.req.header('authorization')
        if (!open && keys.required && !keys.isCarriedBy(key, { bare })) {
          throw new HttpRefusal(401, unauthorized, { 'www-authenticate': 'Bearer' })
        }
        answer = await toAnswer(c)
      } catch (error) {
        answer = toRefusal(error, logger).toAnswer()
      }
      metrics.requestAnswered(path, answer.status)
      return giveAnswer(c, answer)
    }
  }
  for (const route of routes) {
    const { method, body: expected } = route
    // Whatever its method, so that it is the only handler of its path.
    app.all(
      route.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      answering(route, async (c) => {
        const asked = c.req.method
        if (asked !== method && !(asked === 'HEAD' && method === 'GET')) {
          throw new HttpRefusal(405, 'Method Not Allowed', { allow: method })
        }
        if (expected === undefined) return route.handle(c, undefined)
        return route.handle(c, checkBody(expected, await readJsonBody(c.req.raw, maxBodyBytes)))
      }),
    )
  }
  describeRoutes(app, routes)
  app.notFound(
    answering({ path: '*' }, () => {
      throw new HttpRefusal(404, 'Not Found')
    }),
  )
  return app
}

function toRefusal(error: unknown, logger: Logger): HttpRefusal {
  if (error instanceof HttpRefusal) return error
  logger.error({ error }, `request failed: ${errorMessage(error)}`)
  return new HttpRefusal(500, 'Internal Server Error')
}

function documentRoute(app: OpenAPIHono, title: string): ServerRoute {
  return {
    method: 'GET',
    path: '/openapi.json',
    summary: 'This document',
    answers: { 200: { description: 'OpenAPI 3.1', schema: z.looseObject({}) } },
    handle: () =>
      jsonAnswer(app.getOpenAPI31Document({ openapi: '3.1.0', info: { title, version: '1' } })),
  }
}

function assertOptions(options: ServerShellOptions): void {
  if (options.outboxDir === '') {
    throw new OsmosisError(
      'invalid_config',
      'outboxDir (--outbox) is empty. Leave it out, or name a folder.',
    )
  }
  for (const name of ['maxBodyBytes', 'drainSeconds', 'shutdownGraceSeconds'] as const) {
    const value = options[name]
    if (value === undefined || (Number.isFinite(value) && value >= 0)) continue
    throw new OsmosisError(
      'invalid_config',
      `${name} must be a number of at least 0, got ${String(value)}.`,
    )
  }
}
