import { once } from 'node:events'
import {
  type IncomingMessage,
  type ServerResponse,
  createServer,
  type RequestListener,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'

import { answerCompletion, answerContext, asksForUsage } from '@osmosis/controller/answers'
import { errorMessage } from '@osmosis/core'

import {
  fault,
  type FaultyReply,
  type Reply,
  type StatusReply,
  type Faults,
} from './policy-reply.ts'
import { receive, type ReceivedRequest } from './received-request.ts'
import { sseOf } from './sse-text.ts'

/**
 * What a policy server answers: a function of the request and its number, counted from 0, or a list
 * that is used in order. A request beyond the end of the list gets a 500 with an explanation, as does
 * one for which the function throws.
 */
export type PolicyScript =
  | readonly Reply[]
  | ((request: ReceivedRequest, n: number) => Reply | Promise<Reply>)

/** A policy endpoint under the control of a test. */
export interface PolicyServer extends AsyncDisposable {
  /** Base URL: what a rollout gets as its chat completions URL, without `/chat/completions`. */
  readonly url: string
  /** Whether it streams; a rollout of one that does not needs `wire: { stream: false }`. */
  readonly streams: boolean
  /** Every request so far, in order of arrival. */
  readonly requests: readonly ReceivedRequest[]
  /** Resolves with request number `n`, counted from 0, once it has arrived. */
  waitForRequest(n: number): Promise<ReceivedRequest>
  /** Closes every connection and stops listening. Safe to call again. */
  close(): Promise<void>
}

const basePath = '/v1'

/**
 * Starts a policy endpoint on 127.0.0.1 that answers by script, faults included, and records every
 * request. The caller closes it.
 */
export async function startPolicyServer(
  script: PolicyScript,
  options: {
    /** Default: 0, any free port. */
    readonly port?: number
    /** False: a request for a stream is answered 400, as some gateways of trainers do. Default: true. */
    readonly streams?: boolean
  } = {},
): Promise<PolicyServer> {
  const { port, streams = true } = options
  const requests: ReceivedRequest[] = []
  const waiting = new Map<number, PromiseWithResolvers<ReceivedRequest>>()
  let isClosing = false

  function refusesStream({ body }: ReceivedRequest): StatusReply | undefined {
    const asksForStream = body['stream'] === true || body['stream_options'] !== undefined
    return !streams && asksForStream ? failure(400, 'streams are not supported') : undefined
  }

  async function exchange(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const over = new AbortController()
    outgoing.once('close', () => over.abort())
    let wasCut = false
    const cut = (): void => {
      wasCut = true
      outgoing.destroy()
    }
    const request = await receive(incoming, outgoing, () => wasCut || isClosing)
    const n = requests.push(request) - 1
    waiting.get(n)?.resolve(request)
    const reply = refusesStream(request) ?? (await replyTo(script, request, n))
    const { faults } = isFaulty(reply) ? reply : { faults: {} }
    const delivery = isStatus(reply) ? statusDelivery(reply) : answerDelivery(reply, request)
    await deliver(delivery, faults, { outgoing, signal: over.signal, cut })
  }

  const server = await startLoopbackServer((incoming, outgoing) => {
    exchange(incoming, outgoing).catch(() => outgoing.destroy())
  }, port)
  const close = async (): Promise<void> => {
    isClosing = true
    await server.close()
  }
  return {
    url: `${server.url}${basePath}`,
    streams,
    requests,
    waitForRequest: async (n) => {
      const arrived = requests[n]
      if (arrived !== undefined) return arrived
      const waiter = waiting.get(n) ?? Promise.withResolvers<ReceivedRequest>()
      waiting.set(n, waiter)
      return waiter.promise
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

async function replyTo(script: PolicyScript, request: ReceivedRequest, n: number): Promise<Reply> {
  if (new URL(request.path, 'http://policy').pathname !== `${basePath}/chat/completions`) {
    return failure(404, `nothing at ${request.path}; the policy is at ${basePath}/chat/completions`)
  }
  try {
    if (typeof script === 'function') return await script(request, n)
  } catch (error) {
    return failure(500, `the script threw: ${errorMessage(error)}`)
  }
  return (
    script[n] ?? failure(500, `the script has ${script.length} replies; this is request ${n + 1}`)
  )
}

function failure(status: number, message: string): StatusReply {
  return fault.status(status, {
    body: { error: { message, type: 'scripted_error', code: 'scripted' } },
  })
}

function statusDelivery({ status, headers, body }: StatusReply): IntendedAnswer {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  }
}

function answerDelivery(
  reply: Exclude<Reply, StatusReply>,
  { body: request }: ReceivedRequest,
): IntendedAnswer {
  const { answer, faults } = isFaulty(reply) ? reply : { answer: reply, faults: {} }
  const streams = request['stream'] === true || faults.raw !== undefined
  if (faults.json || !streams) {
    const body = JSON.stringify(answerCompletion(answer, answerContext(request)))
    return { status: 200, headers: { 'content-type': 'application/json' }, body }
  }
  const asked = asksForUsage(request)
    ? faults
    : { ...faults, omit: [...(faults.omit ?? []), 'usage' as const] }
  const headers = { 'content-type': 'text/event-stream' }
  return { status: 200, headers, body: sseOf(answer, asked, request) }
}

function isFaulty(reply: Reply): reply is FaultyReply {
  return typeof reply === 'object' && 'answer' in reply
}

function isStatus(reply: Reply): reply is StatusReply {
  return typeof reply === 'object' && 'status' in reply
}

// Tests open hundreds of connections at once; Node's own default is 511.
const backlog = 4096

/**
 * An HTTP server on a port of 127.0.0.1. Closing it closes every connection; safe to call again.
 *
 * @param port - 0 for one that is free
 */
async function startLoopbackServer(
  listener: RequestListener,
  port = 0,
): Promise<Pick<PolicyServer, 'url' | 'close'>> {
  const server = createServer({ keepAliveTimeout: 75_000 }, listener)
  await once(server.listen({ host: '127.0.0.1', port, backlog }), 'listening')
  const { port: taken } = server.address() as AddressInfo

  let closing: Promise<void> | undefined
  async function shutDown(): Promise<void> {
    const closed = Promise.withResolvers<void>()
    server.close(() => closed.resolve())
    server.closeAllConnections()
    await closed.promise
  }
  const close = (): Promise<void> => (closing ??= shutDown())
  return { url: `http://127.0.0.1:${taken}`, close }
}

/** The answer without faults. */
interface IntendedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** One request in progress. */
interface OpenRequest {
  readonly outgoing: ServerResponse
  /** Aborts when the connection is closed. */
  readonly signal: AbortSignal
  /** Destroys the socket from the side of the server. */
  readonly cut: () => void
}

/**
 * Writes an answer with the transport faults it is to have. Resolves when the server has done its
 * part; a hanging answer resolves when `signal` aborts. Once `signal` has aborted nothing is
 * written any more.
 */
async function deliver(
  delivery: IntendedAnswer,
  faults: Faults,
  exchange: OpenRequest,
): Promise<void> {
  const { outgoing, signal, cut } = exchange
  if (faults.cutBeforeHeaders) return cut()
  if (faults.hang === 'headers') return aborted(signal)
  await pause(faults.delayMs, signal)
  if (signal.aborted) return undefined
  outgoing.writeHead(delivery.status, delivery.headers)
  outgoing.flushHeaders()
  await pause(faults.delayFirstByteMs, signal)

  const bytes = Buffer.from(delivery.body)
  if (faults.hang === 'body') {
    await write(firstEvent(bytes), faults, exchange)
    return aborted(signal)
  }
  const end = faults.cutAfterBytes ?? faults.endAfterBytes ?? bytes.length
  await write(bytes.subarray(0, end), faults, exchange)
  if (signal.aborted) return undefined
  if (faults.cutAfterBytes !== undefined) return cut()
  outgoing.end()
  return undefined
}

async function write(
  bytes: Buffer,
  { chunkBytes = Infinity }: Faults,
  { outgoing, signal }: OpenRequest,
): Promise<void> {
  const gone = aborted(signal)
  for (let at = 0; at < bytes.length && !signal.aborted; at += chunkBytes) {
    const flushed = Promise.withResolvers<void>()
    outgoing.write(bytes.subarray(at, at + chunkBytes), () => flushed.resolve())
    // Node drops a write to a socket that is just closing without calling back.
    await Promise.race([flushed.promise, gone])
    // Gives the client a turn, so that the writes reach it one by one.
    if (chunkBytes < bytes.length) await setImmediate()
  }
}

function firstEvent(bytes: Buffer): Buffer {
  const end = /\r?\n\r?\n/.exec(bytes.toString('latin1'))
  return end === null ? bytes.subarray(0, 1) : bytes.subarray(0, end.index + end[0].length)
}

async function pause(ms: number | undefined, signal: AbortSignal): Promise<void> {
  if (ms === undefined) return
  try {
    await sleep(ms, undefined, { signal })
  } catch {
    // The client or the server has closed; the caller looks at the signal.
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  signal.addEventListener('abort', () => resolve(), { once: true })
  await promise
}
