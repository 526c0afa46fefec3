import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

// Tests open hundreds of connections at once; Node's own default is 511.
const backlog = 4096

/** An HTTP server on a port of 127.0.0.1. */
export interface TestServer extends AsyncDisposable {
  /** Without a slash at the end. */
  readonly url: string
  /** Closes every connection and stops listening. Safe to call again. */
  close(): Promise<void>
}

/** @param port - 0 for one that is free */
export async function startLoopbackServer(
  listener: RequestListener,
  port = 0,
): Promise<TestServer> {
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
