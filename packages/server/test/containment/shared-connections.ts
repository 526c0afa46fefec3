import { once } from 'node:events'
import { Agent, createServer, get } from 'node:http'
import type { AddressInfo } from 'node:net'

import { Pool } from 'undici'

/** Connections of a user's module that serve all rollouts, opened by the first one that uses them. */
export interface SharedConnections {
  warmUp(): Promise<void>
  /** Ways to harm the process through them. */
  readonly harms: Record<string, (text: string) => unknown>
  close(): Promise<void>
}

export async function sharedConnections(): Promise<SharedConnections> {
  const server = createServer((incoming, response) => {
    if (incoming.url === '/broken') setTimeout(() => incoming.socket.destroy(), 5)
    else response.end('ok')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const pool = new Pool(url, { connections: 1 })
  return {
    async warmUp() {
      const response = (await once(get(url, { agent }), 'response')) as [NodeJS.ReadableStream]
      await once(response[0].resume(), 'end')
      const { body } = await pool.request({ path: '/', method: 'GET' })
      await body.text()
      await (await fetch(url)).text()
    },
    harms: {
      'response on a connection of others': (text) => {
        get(url, { agent }, () => {
          throw new Error(text)
        })
      },
      'callback on a connection of others': (text) =>
        pool.request({ path: '/', method: 'GET' }, () => {
          throw new Error(text)
        }),
      'request that breaks on a connection of others': () => void fetch(`${url}/broken`),
    },
    async close() {
      agent.destroy()
      await pool.destroy()
      server.close()
    },
  }
}
