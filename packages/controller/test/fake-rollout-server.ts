import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The body of `POST /rollout`, as far as the fake needs it. */
export interface Order {
  rollout_id: string
  chat_completions_url: string
  controller_api_key: string
  llm_api_key: string
  completion_callback_url: string
  grader_callback_url: string | null
  [key: string]: unknown
}

export interface Admission {
  status: number
  headers?: Record<string, string>
  body?: string
}

export interface FakeRolloutServer extends AsyncDisposable {
  url: string
  orders: Order[]
  authorization: (string | undefined)[]
  /** Of orders and cancellations. */
  contentTypes: (string | undefined)[]
  cancels: unknown[]
  /** Resolves with order number `n`, counted from 0. */
  order(n: number): Promise<Order>
}

/** A rollout server whose admission the test controls; it leaves the callbacks to the test. */
export async function startRolloutServer(
  admit: (order: Order, n: number) => Admission | Promise<Admission> = () => ({ status: 202 }),
  cancelStatus = 200,
): Promise<FakeRolloutServer> {
  const orders: Order[] = []
  const cancels: unknown[] = []
  const authorization: (string | undefined)[] = []
  const contentTypes: (string | undefined)[] = []
  const waiting: (() => void)[] = []
  const server = createServer((incoming, outgoing) => {
    void answer(incoming).then(({ status, headers = {}, body = '{}' }) =>
      outgoing.writeHead(status, headers).end(body),
    )
  })

  async function answer(incoming: IncomingMessage): Promise<Admission> {
    const body = await readJson(incoming)
    authorization.push(incoming.headers.authorization)
    contentTypes.push(incoming.headers['content-type'])
    if (incoming.url === '/rollout/cancel') {
      cancels.push(body)
      return { status: cancelStatus }
    }
    const n = orders.push(body as Order) - 1
    for (const wake of waiting.splice(0)) wake()
    return admit(body as Order, n)
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    orders,
    authorization,
    contentTypes,
    cancels,
    order: async (n) => {
      for (;;) {
        const order = orders[n]
        if (order !== undefined) return order
        await new Promise<void>((resolve) => waiting.push(resolve))
      }
    },
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      await closed
    },
  }
}

export async function readJson(incoming: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = []
  for await (const part of incoming as AsyncIterable<Buffer>) parts.push(part)
  return JSON.parse(Buffer.concat(parts).toString())
}

/** A callback's answer: status and parsed body. */
export type Acknowledgement = [status: number, body: unknown]

export async function complete(
  order: Order,
  body: Record<string, unknown> = { status: 'success' },
): Promise<Acknowledgement> {
  return callback(order.completion_callback_url, order.controller_api_key, body)
}

export async function grade(
  order: Order,
  body: Record<string, unknown> = { status: 'success' },
): Promise<Acknowledgement> {
  return callback(order.grader_callback_url ?? '', order.controller_api_key, body)
}

async function callback(url: string, key: string, body: unknown): Promise<Acknowledgement> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  })
  return [answer.status, await answer.json()]
}

/** One model call in the name of an order's rollout. */
export async function callPolicy(
  order: Order,
  body: unknown = { messages: [] },
  init: { headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Response> {
  return fetch(`${order.chat_completions_url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${order.llm_api_key}`, ...init.headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(init.signal ? { signal: init.signal } : {}),
  })
}
