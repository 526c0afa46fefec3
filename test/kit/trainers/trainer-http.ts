import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The HTTP server of a fake trainer. */
export interface TrainerServer {
  readonly url: string
  close(): Promise<void>
}

/** A request as a fake trainer received it. */
export interface ReceivedTrainerRequest {
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: Readonly<IncomingHttpHeaders>
  /** The parsed body; empty when it was not a JSON object. */
  readonly body: Readonly<Record<string, unknown>>
  /** Aborted when the caller closed its socket before it was answered. */
  readonly signal: AbortSignal
}

/** What a fake trainer answers: a status, headers, and a body that goes out as JSON, or text as it is. */
export interface TrainerAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/**
 * What goes wrong with a request: the connection is reset before the trainer has seen it (`reset`), or after
 * it has taken effect (`lost answer`), or it is answered with this error status and has no effect.
 */
export type TrainerFault = 'reset' | 'lost answer' | 404 | 422 | 429 | 500 | 502 | 503

/** Decides on the fault of each request; undefined for none. */
export type TrainerFaults = (
  request: ReceivedTrainerRequest,
  /** Counted from 0. */
  n: number,
) => TrainerFault | undefined

/** Starts the HTTP server of a fake trainer, on a free port. What `answer` throws is a 500 with its message. */
export async function startTrainerHttp(
  answer: (request: ReceivedTrainerRequest) => TrainerAnswer | Promise<TrainerAnswer>,
  faults: TrainerFaults = () => undefined,
): Promise<TrainerServer> {
  let count = 0
  const server = createServer({ keepAliveTimeout: 75_000 }, (incoming, outgoing) => {
    const exchange = async (): Promise<void> => {
      const over = new AbortController()
      outgoing.once('close', () => over.abort())
      const request = await readRequest(incoming, over.signal)
      const fault = faults(request, count++)
      if (fault === 'reset') return void incoming.socket.destroy()
      const given = typeof fault === 'number' ? faultAnswer(fault) : await answered(answer, request)
      if (fault === 'lost answer') return void incoming.socket.destroy()
      const { status, headers, body } = given
      outgoing.writeHead(status, { 'content-type': 'application/json', ...headers })
      outgoing.end(typeof body === 'string' ? body : JSON.stringify(body ?? {}))
    }
    exchange().catch(() => outgoing.destroy())
  })
  server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async (): Promise<void> => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  return { url: `http://127.0.0.1:${port}`, close }
}

async function answered(
  answer: (request: ReceivedTrainerRequest) => TrainerAnswer | Promise<TrainerAnswer>,
  request: ReceivedTrainerRequest,
): Promise<TrainerAnswer> {
  try {
    return await answer(request)
  } catch (error) {
    return { status: 500, body: { detail: error instanceof Error ? error.message : String(error) } }
  }
}

function faultAnswer(status: number): TrainerAnswer {
  return { status, body: { detail: `injected ${status}` } }
}

async function readRequest(
  incoming: IncomingMessage,
  signal: AbortSignal,
): Promise<ReceivedTrainerRequest> {
  const parts: Buffer[] = []
  for await (const part of incoming as AsyncIterable<Buffer>) parts.push(part)
  const { method = 'GET', url = '/', headers } = incoming
  const { pathname: path, searchParams: query } = new URL(url, 'http://trainer')
  return { method, path, query, headers, body: parseObject(Buffer.concat(parts)), signal }
}

function parseObject(bytes: Buffer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(bytes.toString())
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}
