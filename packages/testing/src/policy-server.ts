import {
  type IncomingMessage,
  type ServerResponse,
  createServer,
  type RequestListener,
} from 'node:http'
import type { AddressInfo } from 'node:net'

import { answerCompletion, answerContext, asksForUsage } from '@osmosis/controller/answers'
import { errorMessage } from '@osmosis/core'

import { type IntendedAnswer, deliver } from './faulty-delivery.ts'
import { fault, type FaultyReply, type Reply, type StatusReply } from './policy-reply.ts'
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

/** An HTTP server on a port of 127.0.0.1. */
interface TestServer extends AsyncDisposable {
  /** Without a slash at the end. */
  readonly url: string
  /** Closes every connection and stops listening. Safe to call again. */
  close(): Promise<void>
}

/** @param port - 0 for one that is free */
async function startLoopbackServer(listener: RequestListener, port = 0): Promise<TestServer> {
  const server = createServer({ keepAliveTimeout: 75_000 }, listener)
  const listening = Promise.withResolvers<void>()
  server.once('error', listening.reject)
  server.listen({ host: '127.0.0.1', port, backlog }, listening.resolve)
  await listening.promise
  const { port: taken } = server.address() as AddressInfo

  let closing: Promise<void> | undefined
  async function shutDown(): Promise<void> {
    const closed = Promise.withResolvers<void>()
    server.close(() => closed.resolve())
    server.closeAllConnections()
    await closed.promise
  }
  const close = (): Promise<void> => (closing ??= shutDown())
  return { url: `http://127.0.0.1:${taken}`, close, [Symbol.asyncDispose]: close }
}
