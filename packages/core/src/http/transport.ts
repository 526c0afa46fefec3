import { AsyncLocalStorage } from 'node:async_hooks'
import { createRequire } from 'node:module'

import type * as undici from 'undici'
import type { buildConnector, Dispatcher } from 'undici'

import { isOsmosisError, OsmosisError, type OsmosisErrorCode } from '../errors.ts'
import { EgressRefusal, type EgressPolicy } from './egress/egress-policy.ts'
import { envProxyFor, proxyUrl } from './env-proxy.ts'
import { contentText, readRefusal } from './error-body.ts'
import { shownUrl } from './error-text.ts'
import { exchange, type Connections, type HttpRequest } from './exchange.ts'
import { isAboutKey, type RefusedCall } from './refused-call.ts'
import type { HttpResponse } from './response.ts'
import { isTransientStatus, retryAfterMs, shouldRetry } from './retry.ts'

/**
 * Runs a function outside of the rollout that calls it. For what outlives the rollout: a connection, for
 * example, keeps the async context in which it was opened alive.
 */
export const runOutsideRollout = AsyncLocalStorage.snapshot()

/** Options of {@link createTransport}. */
export interface TransportOptions {
  /** The kind of server, to be put after "the" in messages: `policy endpoint`. */
  readonly name: string
  /** Error codes for a missing answer and for an error status. */
  readonly codes: { readonly unreachable: OsmosisErrorCode; readonly refused: OsmosisErrorCode }
  /** Advice on an error answer, in sentences, for the message; '' for none. Default: none. */
  readonly advise?: ((refusal: RefusedCall, request: HttpRequest) => string) | undefined
  /** Error statuses after which the same request may succeed; default: {@link isTransientStatus}. */
  readonly isTransientStatus?: ((status: number) => boolean) | undefined
  /** Where connections may lead. Default: anywhere, for addresses that no caller chooses. */
  readonly egress?: EgressPolicy | undefined
  /** How long connecting may take. Milliseconds; default 10 s. */
  readonly connectTimeoutMs?: number | undefined
  /** How long an idle connection stays open. Milliseconds; default 30 s. */
  readonly keepAliveMs?: number | undefined
  /** Replaces the transport's own connections. The caller closes it. */
  readonly dispatcher?: Dispatcher | undefined
}

/** Connections to one kind of server, and its errors. */
export interface Transport {
  /**
   * Sends a request once and resolves with the answer, whatever its status.
   *
   * @throws OsmosisError with the code for `unreachable`, or `egress_refused`, or the reason of the
   * signal
   */
  send(url: string | URL, request: HttpRequest): Promise<HttpResponse>
  /**
   * The same for callers that need a success status.
   *
   * @throws OsmosisError also with the code for `refused`, with `status`, `retryAfterMs` and
   * `shouldRetry`
   */
  post(url: string | URL, request: HttpRequest): Promise<HttpResponse>
  /** Whether an error of `send` or `post` is transient: sending the request again can help. */
  readonly isTransient: (error: unknown) => boolean
  /** Aborts what is in progress. Later requests fail. */
  close(): Promise<void>
}

interface OpenConnections extends Connections {
  destroy(): Promise<unknown>
}

/**
 * Opens connections with the first request. An answer has no time limit but the signal of its request
 * (undici and Node's fetch give up after 300 s). Redirects are returned, not followed. A transport that
 * lives as long as the process need not be closed: idle connections do not keep a process alive.
 */
export function createTransport(options: TransportOptions): Transport {
  const { codes, name, advise } = options
  const isTransient = options.isTransientStatus ?? isTransientStatus
  let opening: Promise<OpenConnections> | undefined
  let opened: OpenConnections | undefined
  let closed = false

  /**
   * Sends a request for `send` and `post`. Not an async function, whose frame would live as long as the
   * policy takes to answer, for each of thousands of requests.
   */
  function sendRequest(
    url: string | URL,
    request: HttpRequest,
    anyStatus: boolean,
  ): Promise<HttpResponse> {
    return exchanged(url, request).then(
      (answer) => (anyStatus || isSuccess(answer) ? answer : refused(answer, url, request)),
      (cause: unknown) => {
        throw unanswered(cause, url, request)
      },
    )
  }

  function exchanged(url: string | URL, request: HttpRequest): Promise<HttpResponse> {
    if (opened !== undefined && !closed) return exchange(opened, url, request)
    return openFirst().then((connections) => exchange(connections, url, request))
  }

  async function openFirst(): Promise<OpenConnections> {
    if (closed) throw new Error('the connections were closed')
    opening ??= openConnections(options).catch((error: unknown) => {
      // The next request may find what was missing, such as a free file descriptor.
      opening = undefined
      throw error
    })
    opened = await opening
    return opened
  }

  function unanswered(cause: unknown, url: string | URL, { signal }: HttpRequest): unknown {
    if (signal.aborted) return signal.reason
    if (cause instanceof EgressRefusal) {
      const message = `The ${name} was not called: ${cause.message} (${shownUrl(url)}).`
      return new OsmosisError('egress_refused', message)
    }
    if (isOsmosisError(cause)) return cause
    const { through, note } = proxyTexts(cause, url, options)
    const message = `No answer from the ${name}${through}: ${describeNetworkError(cause)}${note} (${shownUrl(url)})`
    return new OsmosisError(codes.unreachable, message, { cause })
  }

  async function refused(
    answer: HttpResponse,
    url: string | URL,
    request: HttpRequest,
  ): Promise<never> {
    const { status, headers } = answer
    const { text, code, type } = await readRefusal(answer, request.headers['authorization'])
    request.signal.throwIfAborted()
    const refusal: RefusedCall & { status: number } = {
      status,
      endpointMessage: text,
      endpointCode: code,
      endpointType: type,
    }
    const said = `The ${name} answered ${status}${contentText(answer)}${text && `: ${text}`}`
    throw new OsmosisError(
      codes.refused,
      // The address comes last: it is longer than what a line shows of an error.
      `${withAdvice(said, advise?.(refusal, request))} (${shownUrl(url)})`,
      {
        ...refusal,
        retryAfterMs: retryAfterMs(headers),
        // The words of a 500 about the key say more than its status: the next attempt has the same key.
        shouldRetry:
          shouldRetry(headers) ?? (status === 500 && isAboutKey(refusal) ? false : undefined),
      },
    )
  }

  return {
    send: (url, request) => sendRequest(url, request, true),
    post: (url, request) => sendRequest(url, request, false),
    isTransient(error) {
      if (!isOsmosisError(error)) return false
      const { code, status, cause } = error
      if (code !== codes.refused && code !== codes.unreachable) return false
      if (status !== undefined) return error.shouldRetry ?? isTransient(status)
      return !unsendable.has((cause as { code?: unknown } | undefined)?.code)
    },
    async close() {
      closed = true
      await (await opening?.catch(() => undefined))?.destroy()
    },
  }
}

/**
 * Transports that differ only in where they may connect to. A connection of one egress policy is never used
 * under another.
 */
export function transportsByEgress(
  options: Omit<TransportOptions, 'egress'>,
): (egress: EgressPolicy) => Transport {
  const transports = new WeakMap<EgressPolicy, Transport>()
  return (egress) => {
    const known = transports.get(egress)
    if (known !== undefined) return known
    const transport = createTransport({ ...options, egress })
    transports.set(egress, transport)
    return transport
  }
}

function withAdvice(said: string, advice = ''): string {
  if (advice === '') return said
  return `${said}${/[.!?]$/.test(said) ? '' : '.'} ${advice}`
}

function isSuccess({ status }: HttpResponse): boolean {
  return status >= 200 && status <= 299
}

/** undici's codes for a request that cannot be sent, such as one with a line break in its key. */
const unsendable = new Set<unknown>(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED'])

async function openConnections(options: TransportOptions): Promise<OpenConnections> {
  const { dispatcher, egress, connectTimeoutMs: timeout = 10_000, keepAliveMs = 30_000 } = options
  if (dispatcher) {
    return {
      dispatch: (request, receiver) => dispatcher.dispatch(request, receiver),
      destroy: async () => {},
    }
  }
  const { Agent, buildConnector, Pool, ProxyAgent } = await loadUndici()
  const connectorTo = (url: URL): buildConnector.connector => {
    // Literal addresses are not looked up.
    const refusal = egress?.refusal(url)
    if (refusal !== undefined) throw new EgressRefusal(refusal)
    const lookup = egress?.lookupFor(url)
    const connect = buildConnector({ timeout, ...(lookup && { lookup }) })
    return (target, done) => runOutsideRollout(connect, target, done)
  }
  const settings = {
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: keepAliveMs,
    connections: null,
  }
  /** A pool whose connections go through a proxy, as undici prepares them. */
  const poolThrough = (
    origin: string | URL,
    { connect }: { connect?: buildConnector.connector },
  ): Dispatcher =>
    new Pool(origin, {
      ...settings,
      ...(connect && {
        connect: (target, done) => runOutsideRollout(connect, target, done),
      }),
    })
  const agent = new Agent({
    factory: (origin) => {
      const url = new URL(origin)
      const proxy = envProxyFor(url)
      if (!proxy?.isUsed) return new Pool(origin, { ...settings, connect: connectorTo(url) })
      return new ProxyAgent({
        uri: proxyUrl(proxy).href,
        connectTimeout: timeout,
        factory: poolThrough,
        clientFactory: poolThrough,
      })
    },
  })
  if (egress === undefined) return agent
  return {
    dispatch(request, receiver) {
      const url = new URL(String(request.origin))
      if (!envProxyFor(url)?.isUsed) return agent.dispatch(request, receiver)
      // A proxy looks names up itself, so what the lookup of a connection would refuse is refused before.
      return egress
        .refusalBehindProxy(url)
        .then((refusal) => {
          if (refusal !== undefined) throw new EgressRefusal(refusal)
          return agent.dispatch(request, receiver)
        })
        .catch((error: unknown) => {
          receiver.onResponseError?.(undefined as never, error as Error)
        })
    },
    destroy: () => agent.destroy(),
  }
}

/** What went wrong where a connection could not be made. */
const unreached = new Set<unknown>([
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
])

/** The proxy that a request went through, or the advice about one that was ignored. */
function proxyTexts(
  cause: unknown,
  url: string | URL,
  { dispatcher }: TransportOptions,
): { through: string; note: string } {
  const none = { through: '', note: '' }
  const target = URL.parse(String(url))
  const proxy = target === null || dispatcher ? undefined : envProxyFor(target)
  if (proxy === undefined) return none
  const { variable, value, isUsed } = proxy
  if (isUsed) return { ...none, through: ` through the proxy ${shownUrl(value)} (${variable})` }
  if (!unreached.has((cause as { code?: unknown } | undefined)?.code)) return none
  return { ...none, note: `; ${variable} is ignored without NODE_USE_ENV_PROXY=1` }
}

/**
 * Loaded with the first request, because importing undici is slow. In a server's process Node.js 22.19 imports it with the
 * names of its exports and no values; `require` gives the values there, and cannot be bundled.
 */
async function loadUndici(): Promise<typeof undici> {
  const imported = await import('undici')
  const isWhole = (imported.Agent as unknown) !== undefined
  return isWhole ? imported : (createRequire(import.meta.url)('undici') as typeof undici)
}

function describeNetworkError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as { code?: unknown }
  // A refused connection to a name with two addresses is an AggregateError without a message.
  return error.message || (typeof code === 'string' ? code : error.name)
}
