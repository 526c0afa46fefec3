import { errorMessage, OsmosisError } from '@osmosis/core'
import { type Dispatcher, request } from 'undici'

import type { ServerAddress } from './controller-options.ts'

/** What a rollout server answered. */
export interface ServerAnswer {
  readonly status: number
  readonly retryAfter: string | undefined
  readonly text: string
}

/**
 * POSTs a JSON body to a rollout server. Redirects are not followed.
 *
 * @throws OsmosisError with code `protocol_error` when no answer came; the signal's reason when it
 * aborted
 */
export async function postToServer(
  server: ServerAddress,
  path: string,
  body: unknown,
  options: { dispatcher: Dispatcher; signal: AbortSignal },
): Promise<ServerAnswer> {
  const url = server.url.replace(/\/+$/, '') + path
  const authorization = server.apiKey ? { authorization: `Bearer ${server.apiKey}` } : {}
  try {
    const answer = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...authorization },
      body: JSON.stringify(body),
      dispatcher: options.dispatcher,
      signal: options.signal,
    })
    const text = await answer.body.text()
    const retryAfter = [answer.headers['retry-after']].flat()[0]
    return { status: answer.statusCode, retryAfter, text }
  } catch (cause) {
    options.signal.throwIfAborted()
    throw new OsmosisError(
      'protocol_error',
      `POST ${url} got no answer: ${errorMessage(cause)}. Is the rollout server running?`,
      { cause },
    )
  }
}

/**
 * Asks the server to stop a rollout. Best effort: the rollout is over for the controller whatever
 * the server says, so an error is of no use to anybody.
 */
export async function requestCancel(
  server: ServerAddress,
  rolloutId: string,
  dispatcher: Dispatcher,
): Promise<void> {
  const signal = AbortSignal.timeout(2000)
  try {
    await postToServer(server, '/rollout/cancel', { ids: [rolloutId] }, { dispatcher, signal })
  } catch {
    // See above.
  }
}
