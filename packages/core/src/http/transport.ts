import { AsyncLocalStorage } from 'node:async_hooks'

import type { buildConnector, Dispatcher } from 'undici'

import { isOsmosisError, OsmosisError, type OsmosisErrorCode } from '../errors.ts'
import { EgressRefusal, type EgressPolicy } from './egress-policy.ts'
import { exchange, type Connections, type HttpAnswer, type HttpRequest } from './exchange.ts'
import { PlainConnections } from './plain-connections.ts'
import { contentText } from './readable-answer.ts'
import { refusalText } from './refusal-text.ts'
import { retryAfterMs, shouldRetry } from './retry-after.ts'
import { isPassingStatus } from './retry.ts'

/**
 * Runs what belongs to the process, although some rollout needed it first: it finds no ambient rollout, and
 * keeps none alive. A connection, for one, has the async context it was opened in for as long as it is open.
 */
export const outsideOfRollouts = AsyncLocalStorage.snapshot()

/** Options of {@link createTransport}. */
export interface TransportOptions {
  /** Who is asked, as it stands behind "the" in messages: `policy endpoint`. */
  readonly name: string
  /** Codes of errors: there was no answer at all, or one that refuses. */
  readonly codes: { readonly unreachable: OsmosisErrorCode; readonly refused: OsmosisErrorCode }
  /** What to do about an error status, put behind what the other side said. */
  readonly hints?: Readonly<Record<number, string>> | undefined
  /** Error statuses after which the same request may succeed; default: {@link isPassingStatus}. */
  readonly isPassingStatus?: ((status: number) => boolean) | undefined
  /** Where connections may lead; default: anywhere, for addresses that no caller has a say in. */
  readonly egress?: EgressPolicy | undefined
  /** How long connecting may take. Milliseconds; default 10 s. */
  readonly connectTimeoutMs?: number | undefined
  /** Connections to one origin at most; requests beyond them wait. Default: no limit. */
  readonly maxConnections?: number | undefined
  /** How long a connection that nobody uses is kept. Milliseconds; default 30 s. */
  readonly keepAliveMs?: number | undefined
  /** Takes the place of connections of the transport's own; whoever made it closes it. */
  readonly dispatcher?: Dispatcher | undefined
}

/** Connections to one kind of server, and the words for what can go wrong with them. */
export interface Transport {
  /**
   * Sends a request once and resolves with the answer, whatever its status.
   *
   * @throws OsmosisError with the code for `unreachable`, or `egress_refused`, or the reason of the
   * signal
   */
  send(url: string | URL, request: HttpRequest): Promise<HttpAnswer>
  /**
   * The same, for those who can use a success only.
   *
   * @throws OsmosisError also with the code for `refused`, with `status`, `retryAfterMs` and
   * `shouldRetry`
   */
  post(url: string | URL, request: HttpRequest): Promise<HttpAnswer>
  /** Whether sending the request again can help after this error of `send` or `post`. */
  readonly isPassing: (error: unknown) => boolean
  /** Breaks off what is in progress. Requests after that fail. */
  close(): Promise<void>
}

interface OpenConnections extends Connections {
  destroy(): Promise<unknown>
}

/**
 * Opens connections, with the first request. An answer may take as long as it likes: only the
 * signal of a request ends it, never a silence of the server (undici and Node's fetch would give
 * up after 300 s). Redirects are answers like others and not followed. A transport that lives as
 * long as the process need not be closed: idle connections do not keep a process alive.
 */
export function createTransport(options: TransportOptions): Transport {
  const { codes, name, hints = {} } = options
  const isPassing = options.isPassingStatus ?? isPassingStatus
  let opening: Promise<OpenConnections> | undefined
  let opened: OpenConnections | undefined
  let closed = false

  /**
   * One function for `send` and `post`, and no asynchronous one: it holds what it needs for as long as a
   * policy takes to answer, for thousands of requests at a time.
   */
  function ask(url: string | URL, asked: HttpRequest, any: boolean): Promise<HttpAnswer> {
    return exchanged(url, asked).then(
      (answer) => (any || isSuccess(answer) ? answer : refused(answer, url, asked)),
      (cause: unknown) => {
        throw unanswered(cause, url, asked)
      },
    )
  }

  function exchanged(url: string | URL, asked: HttpRequest): Promise<HttpAnswer> {
    if (opened !== undefined && !closed) return exchange(opened, url, asked)
    return openFirst().then((connections) => exchange(connections, url, asked))
  }

  async function openFirst(): Promise<OpenConnections> {
    if (closed) throw new Error('the connections were closed')
    opened = await (opening ??= openConnections(options))
    return opened
  }

  function unanswered(cause: unknown, url: string | URL, { signal }: HttpRequest): unknown {
    if (signal.aborted) return signal.reason
    if (cause instanceof EgressRefusal) {
      const why = `The ${name} ${shown(url)} was not asked: ${cause.message}.`
      return new OsmosisError('egress_refused', why)
    }
    const message = `No answer from the ${name} ${shown(url)}: ${describeNetworkError(cause)}`
    return new OsmosisError(codes.unreachable, message, { cause })
  }

  async function refused(
    answer: HttpAnswer,
    url: string | URL,
    asked: HttpRequest,
  ): Promise<never> {
    const { status, headers } = answer
    const said = await refusalText(answer, asked.headers['authorization'])
    asked.signal.throwIfAborted()
    throw new OsmosisError(
      codes.refused,
      `The ${name} ${shown(url)} answered ${status}${contentText(answer)}${said && `: ${said}`}${hints[status] ?? ''}`,
      { status, retryAfterMs: retryAfterMs(headers), shouldRetry: shouldRetry(headers) },
    )
  }

  return {
    send: (url, asked) => ask(url, asked, true),
    post: (url, asked) => ask(url, asked, false),
    isPassing(error) {
      if (!isOsmosisError(error)) return false
      const { code, status, cause } = error
      if (code !== codes.refused && code !== codes.unreachable) return false
      if (status !== undefined) return error.shouldRetry ?? isPassing(status)
      return !unsendable.has((cause as { code?: unknown } | undefined)?.code)
    },
    async close() {
      closed = true
      await (await opening)?.destroy()
    },
  }
}

/**
 * Transports that differ only in where they may connect to. A connection that was made under one
 * policy is never used under another.
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

function isSuccess({ status }: HttpAnswer): boolean {
  return status >= 200 && status <= 299
}

/** An address without what may hold keys: user info and query. */
function shown(url: string | URL): string {
  if (!URL.canParse(String(url))) return String(url)
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname}`
}

/** undici's words for a request that cannot be sent at all, such as a key with a line break. */
const unsendable = new Set<unknown>(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED'])

async function openConnections(options: TransportOptions): Promise<OpenConnections> {
  const { dispatcher, egress, connectTimeoutMs: timeout = 10_000, keepAliveMs = 30_000 } = options
  const { maxConnections } = options
  if (dispatcher) {
    return {
      dispatch: (request, receiver) => dispatcher.dispatch(request, receiver),
      destroy: async () => {},
    }
  }
  // Loaded with the first request: undici is most of what importing this package would cost.
  const { Agent, buildConnector, Client, Pool } = await import('undici')
  const connectorTo = (url: URL): buildConnector.connector => {
    // Literal addresses are connected to without a lookup.
    const refusal = egress?.refusal(url)
    if (refusal !== undefined) throw new EgressRefusal(refusal)
    const lookup = egress?.lookupFor(url)
    const connect = buildConnector({ timeout, ...(lookup && { lookup }) })
    return (asked, done) => outsideOfRollouts(connect, asked, done)
  }
  const settings = { headersTimeout: 0, bodyTimeout: 0, keepAliveTimeout: keepAliveMs }
  const plain = new PlainConnections({
    clientOf(url) {
      const connect = connectorTo(url)
      return () => new Client(url, { ...settings, connect })
    },
    most: maxConnections,
  })
  const connections = maxConnections ?? null
  const secure = new Agent({
    factory: (origin) =>
      new Pool(origin, { ...settings, connections, connect: connectorTo(new URL(origin)) }),
  })
  return {
    dispatch(request, receiver) {
      const isPlain = String(request.origin).startsWith('http:')
      ;(isPlain ? plain : secure).dispatch(request, receiver)
    },
    destroy: () => Promise.all([plain.destroy(), secure.destroy()]),
  }
}

function describeNetworkError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as { code?: unknown }
  // A refused connection to a name with two addresses is an AggregateError without a message.
  return error.message || (typeof code === 'string' ? code : error.name)
}
