import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

import { errorMessage, isOsmosisError } from '../errors.ts'
import { getRolloutContext } from '../rollout-context.ts'
import type { PolicyClient } from './policy-client.ts'
import { useHeaderNames } from './policy-wire.ts'

/** A policy under a URL of its own, see {@link createPolicyProxy}. */
export interface PolicyProxy extends AsyncDisposable {
  /** Base URL, without `/chat/completions`. It contains a secret, so that only its users can call. */
  readonly url: string
  /** Ends the calls in progress. Has no effect the second time. */
  close(): Promise<void>
}

/**
 * Serves the policy of a sample on the loopback interface, for SDKs that accept a base URL and no `fetch`, and
 * for child processes in any language. Requests go through `policy` with all of its guarantees; keys and
 * headers of the caller are ignored, but for `x-osmosis-purpose` and `x-osmosis-trainable`. It closes at the end of the rollout, unless `close` was called before.
 */
export async function createPolicyProxy(policy: Pick<PolicyClient, 'fetch'>): Promise<PolicyProxy> {
  // Loaded when it is used, because it doubles the time to import this package.
  const { createServer } = await import('node:http')
  const secret = randomUUID()
  const rolloutSignal = getRolloutContext()?.signal
  rolloutSignal?.throwIfAborted()
  const server = createServer((request, response) => {
    const isKnown = request.url?.startsWith(`/${secret}/`)
    if (isKnown) answer(policy, request, response).catch(() => response.destroy())
    else response.writeHead(404).end()
  })
  await listening(server)
  const { port } = server.address() as AddressInfo
  const closed = Promise.withResolvers<void>()
  const stop = (): void => {
    server.close(() => closed.resolve())
    server.closeAllConnections()
  }
  rolloutSignal?.addEventListener('abort', stop, { once: true })
  const close = async (): Promise<void> => {
    rolloutSignal?.removeEventListener('abort', stop)
    stop()
    return closed.promise
  }
  const url = `http://127.0.0.1:${port}/${secret}/v1`
  return { url, close, [Symbol.asyncDispose]: close }
}

async function listening(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
}

async function answer(
  policy: Pick<PolicyClient, 'fetch'>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const disconnected = new AbortController()
  response.once('close', () => disconnected.abort())
  const [{ text }, { pipeline }] = await Promise.all([
    import('node:stream/consumers'),
    import('node:stream/promises'),
  ])
  let answered: Response
  try {
    const body = request.method === 'POST' ? await text(request) : null
    const { method = 'GET', url = '/' } = request
    const headers = useHeaderNames.flatMap((name) => {
      const value = request.headers[name]
      return typeof value === 'string' ? [[name, value] as [string, string]] : []
    })
    answered = await policy.fetch(new URL(url, 'http://127.0.0.1').href, {
      method,
      headers,
      body,
      signal: disconnected.signal,
    })
  } catch (error) {
    const status = isOsmosisError(error) && error.code === 'invalid_request' ? 400 : 502
    const refusal = { error: { message: errorMessage(error) } }
    const headers = { 'content-type': 'application/json', 'x-should-retry': 'false' }
    response.writeHead(status, headers).end(JSON.stringify(refusal))
    return
  }
  response.writeHead(answered.status, Object.fromEntries(answered.headers))
  // An answer that breaks off breaks off for the caller, too.
  await pipeline(answered.body as AsyncIterable<Uint8Array>, response)
}
