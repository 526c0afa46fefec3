import { tmpdir } from 'node:os'

import { OpenAPIHono } from '@hono/zod-openapi'
import { errorMessage, OsmosisError } from '@osmosis/core'
import { EgressPolicy, type EgressOptions } from '@osmosis/core/http'
import { SecretValues } from '@osmosis/protocol/http'
import type { Context } from 'hono'

import { FileSystemWatch } from '../containment/blocked-threads.ts'
import { CallbackDelivery, type CallbackRetryOptions } from '../delivery/callback-delivery.ts'
import { Outbox, type Leftovers } from '../delivery/outbox.ts'
import { createStderrLogger, silentLogger, type Logger } from '../logging/logger.ts'
import { redactingLogger } from '../logging/redacting-logger.ts'
import { ServerMetrics } from '../metrics/server-metrics.ts'
import { RunningWork } from '../work/running-work.ts'
import { ServerLife, type LifeHooks } from '../work/server-life.ts'
import { ApiKeys } from './api-keys.ts'
import { checkBody, readJsonBody } from './request-body.ts'
import { HttpRefusal, sendAnswer, type RouteAnswer, type ServerRoute } from './server-route.ts'
import {
  describeRoutes,
  documentRoute,
  metricsRoute,
  showShared,
  withFileSystem,
} from './shell-routes.ts'

/** Options of every server. */
export interface ServerShellOptions extends LifeHooks {
  /**
   * Key that callers must present as a bearer, except for open routes; any one of several. Default: callers
   * need none.
   */
  apiKey?: string | readonly string[] | undefined
  /** Largest request body. Bytes; default 64 MiB. */
  maxBodyBytes?: number | undefined
  /**
   * Folder that stores accepted rollouts until their results are delivered. The next process with the same
   * folder delivers what this one could not, and reports rollouts that were in progress as failed. It
   * contains the keys for delivering results. Default: rollouts and results end with the process.
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
  /** Undefined: accepted rollouts end with the process. */
  readonly outbox: Outbox | undefined
  /** Where the server may connect to. */
  readonly egress: EgressPolicy
  readonly work: RunningWork
  readonly secrets: SecretValues
  /** Removes secrets before it writes a line. */
  readonly logger: Logger
  /** What `/metrics` shows. */
  readonly metrics: ServerMetrics
  /** Aborted when the server begins to end: it accepts nothing new from then on. */
  readonly ending: AbortSignal
}

/** A rollout protocol, as the shell serves it. */
export interface ServerProtocol {
  /** For the OpenAPI document. */
  readonly title: string
  readonly routes: readonly ServerRoute[]
  /** Fails everything that is still running because the process is about to end. */
  readonly endWork: () => void
  /** Continues with what earlier processes left in the outbox; called once, before the first request. */
  readonly resume: (left: Leftovers) => void
  /**
   * Waits until callers have fetched their results; the work has ended by then. Default: callers fetch
   * none.
   */
  readonly settle?: (maxWaitMs: number) => Promise<void>
  /** Rollouts that were accepted and are not over, for `/metrics`. Default: those of this process. */
  readonly inFlight?: () => number | Promise<number>
  /** The text of a 401. */
  readonly unauthorized: string
  /** Whether a key without `Bearer` is accepted as well; default false. */
  readonly acceptsBareKey?: boolean
}

/** What `serve` listens for: a rollout server, or an app with the same lifecycle. */
export interface ServableApp {
  /**
   * Answers one request.
   *
   * @param host - what the host passes beside it; `serve` passes Node's own `incoming` and `outgoing`
   */
  readonly fetch: (request: Request, host?: object) => Promise<Response>
  /** Whether callers have to present a key. */
  readonly requiresKey: boolean
  readonly logger: Logger
  /** Aborted when the app cannot continue serving; it is closed then. Default: never. */
  readonly lost?: AbortSignal
  /** Accepts no new work and resolves when the running work has ended. */
  drain(options?: { waitSeconds?: number | undefined }): Promise<void>
  /** Prepares the app; called before the port is opened. When it rejects, nothing is served. */
  start?(): Promise<void>
}

/** A server without a port: a Web-standard handler, and the work behind it. */
export interface ServerShell extends ServableApp, AsyncDisposable {
  /** Pending callbacks: being sent, or given up for now and stored in the outbox. */
  readonly undelivered: number
  /** The server's log, without secrets. */
  readonly logger: Logger
  /** Aborted when the server begins to end. */
  readonly ending: AbortSignal
  /** Aborted when another server has taken over the outbox; this one ends, and delivers nothing more. */
  readonly lost: AbortSignal
  /**
   * Replaces the keys that callers may present.
   *
   * @throws OsmosisError with code `invalid_config` for a key that cannot be sent, an empty list,
   * and a server that was created without one
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
   * Stops accepting rollouts, waits for the running ones, ends those that outlast the wait, delivers
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
 * What servers of all rollout protocols share, around the routes of one: key, body limits, JSON, errors,
 * OpenAPI document, start and drain, delivery, log, secrets. It opens no port; the caller closes it.
 *
 * @param toProtocol - builds the protocol on the services of the shell
 * @throws OsmosisError with code `invalid_config` for a key that cannot be sent, a limit that is
 * not a number of at least 0, an outbox without a name, or hosts that cannot be parsed
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
  const watch = new FileSystemWatch(outboxDir ?? tmpdir())
  const routes = withFileSystem(protocol.routes, watch)
  const app = createApp({ ...protocol, routes }, { keys, maxBodyBytes, logger, metrics })
  const end = async (waitSeconds?: number): Promise<void> => {
    try {
      await life.end(waitSeconds)
    } finally {
      metrics.close()
      watch.close()
    }
  }
  return {
    fetch: async (request, host) => {
      // While it ends it still answers: 503 to requests, and the health check as usual.
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

  // One handler does everything: with middleware, Hono would create several promises and objects per request.
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
      return sendAnswer(c, answer)
    }
  }
  for (const route of routes) {
    const { method, body: expected } = route
    // For all methods, so that it is the only handler of its path.
    app.all(
      route.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      answering(route, async (c) => {
        const used = c.req.method
        if (used !== method && !(used === 'HEAD' && method === 'GET')) {
          throw new HttpRefusal(405, 'Method Not Allowed', { allow: method })
        }
        if (expected === undefined) return route.handle(c, undefined, '')
        const { value, text } = await readJsonBody(c.req.raw, maxBodyBytes)
        return route.handle(c, checkBody(expected, value), text)
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

function assertOptions(options: ServerShellOptions): void {
  if (options.outboxDir === '') {
    throw new OsmosisError(
      'invalid_config',
      'outboxDir (--outbox) is empty. Omit it, or name a folder.',
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
