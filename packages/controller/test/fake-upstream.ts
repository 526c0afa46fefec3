import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

import { readJson } from './fake-rollout-server.ts'

export interface UpstreamRequest {
  path: string | undefined
  headers: IncomingMessage['headers']
  body: unknown
  /** Resolves when the connection closed before the answer was complete. */
  abandoned: Promise<void>
}

export interface FakeUpstream extends AsyncDisposable {
  url: string
  requests: UpstreamRequest[]
}

/** An endpoint that writes its answers by hand. */
export async function startUpstream(
  answer: (outgoing: ServerResponse, request: UpstreamRequest) => void | Promise<void>,
): Promise<FakeUpstream> {
  const requests: UpstreamRequest[] = []
  const server = createServer((incoming, outgoing) => {
    const abandoned = new Promise<void>((resolve) =>
      outgoing.once('close', () => outgoing.writableFinished || resolve()),
    )
    void readJson(incoming).then(async (body) => {
      const request = { path: incoming.url, headers: incoming.headers, body, abandoned }
      requests.push(request)
      return answer(outgoing, request)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      await closed
    },
  }
}

/** Writes bytes in pieces of odd sizes, each on its own. */
export async function writeOddly(outgoing: ServerResponse, bytes: Buffer): Promise<void> {
  for (let at = 0, size = 1; at < bytes.length; at += size, size = (size * 3) % 17) {
    size = Math.max(size, 1)
    outgoing.write(bytes.subarray(at, at + size))
    await new Promise((resolve) => setImmediate(resolve))
  }
  outgoing.end()
}
