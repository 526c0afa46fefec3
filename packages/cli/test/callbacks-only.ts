import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

import { onTestFinished } from 'vitest'

/** A rollout server that knows callbacks only, as those of the Python SDK before 0.3.3 do. */
export interface CallbacksOnly {
  readonly url: string
  /** Bodies of `POST /rollout`, in order. */
  readonly orders: Record<string, unknown>[]
}

/** Starts one in front of a server that knows more; it ends with the test. */
export async function callbacksOnly(behind: string): Promise<CallbacksOnly> {
  const orders: Record<string, unknown>[] = []
  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body = await text(incoming)
    if (incoming.url === '/rollout') {
      const order = JSON.parse(body) as Record<string, unknown>
      orders.push(order)
      if (order['completion_callback_url'] === undefined) {
        const missing = { loc: ['body', 'completion_callback_url'], msg: 'Field required' }
        outgoing.writeHead(422).end(JSON.stringify({ detail: [{ type: 'missing', ...missing }] }))
        return
      }
    }
    const passedOn = await fetch(`${behind}${incoming.url}`, {
      method: incoming.method ?? 'GET',
      headers: { 'content-type': 'application/json' },
      ...(body === '' ? {} : { body }),
    })
    outgoing.writeHead(passedOn.status).end(await passedOn.text())
  }
  const server = createServer((incoming, outgoing) => {
    answer(incoming, outgoing).catch((error: unknown) => outgoing.destroy(error as Error))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, orders }
}
