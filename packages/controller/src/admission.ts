import { setTimeout as sleep } from 'node:timers/promises'

import { OsmosisError } from '@osmosis/core'
import type { RolloutRequestBody } from '@osmosis/core/wire'
import type { Dispatcher } from 'undici'

import type { ServerAddress } from './controller-options.ts'
import { retryAfterMs } from './retry-after.ts'
import { postToServer, type ServerAnswer } from './rollout-server-client.ts'

const longestDetail = 500

/**
 * Sends an order until the server takes it: while the server is full or draining (429, 503), again
 * after its `Retry-After`. `onSend` runs before each attempt.
 *
 * @throws OsmosisError with code `unauthorized` or `protocol_error`; the signal's reason
 */
export async function admit(
  server: ServerAddress,
  body: RolloutRequestBody,
  options: { dispatcher: Dispatcher; signal: AbortSignal; onSend: () => void },
): Promise<void> {
  for (;;) {
    options.onSend()
    const answer = await postToServer(server, '/rollout', body, options)
    // 200 is what servers of the older protocol generation answer.
    if (answer.status === 202 || answer.status === 200) return
    if (answer.status !== 429 && answer.status !== 503) throw refusal(answer)
    await pause(retryAfterMs(answer.retryAfter), options.signal)
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal })
  } catch {
    // The timer throws an AbortError of its own; callers expect the signal's reason.
    signal.throwIfAborted()
  }
}

function refusal({ status, text }: ServerAnswer): OsmosisError {
  const answered = `POST /rollout was answered with ${status}: ${detailOf(text)}`
  if (status === 401) {
    return new OsmosisError(
      'unauthorized',
      `${answered}. Pass the rollout server's key as server.apiKey.`,
      { status },
    )
  }
  return new OsmosisError(
    'protocol_error',
    `${answered}. Only 202 and 200 accept a rollout, and only 429 and 503 ask for a repetition.`,
    { status },
  )
}

function detailOf(text: string): string {
  const detail = detailField(text) ?? text
  const shown = typeof detail === 'string' ? detail : JSON.stringify(detail)
  return shown.trim().slice(0, longestDetail) || 'empty body'
}

function detailField(text: string): unknown {
  try {
    const body: unknown = JSON.parse(text)
    return typeof body === 'object' && body !== null && 'detail' in body ? body.detail : undefined
  } catch {
    return undefined
  }
}
