import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'

import { onTestFinished } from 'vitest'

import { freePort } from './free-port.ts'

/** A server that a test starts and ends, always at the same port. */
export interface RestartingServer {
  readonly url: string
  start(): Promise<void>
  /** Ends it with its connections, as a process that is killed. */
  stop(): Promise<void>
}

/** A server that is not started yet. It ends with the test. */
export async function restartingServer(listener: RequestListener): Promise<RestartingServer> {
  const port = await freePort()
  let server: Server | undefined
  async function stop(): Promise<void> {
    if (server === undefined) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    server = undefined
    await closed
  }
  onTestFinished(stop)
  return {
    url: `http://127.0.0.1:${port}/v1`,
    async start() {
      server = createServer(listener).listen(port, '127.0.0.1')
      await once(server, 'listening')
    },
    stop,
  }
}
