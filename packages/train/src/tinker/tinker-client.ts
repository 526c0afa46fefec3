import { setTimeout as sleep } from 'node:timers/promises'

import { OsmosisError } from '@osmosis/core'
import { createTransport, retryAfterMs, type Transport } from '@osmosis/core/http'
import { boundedText } from '@osmosis/runtime/http'

/** Where a service that speaks the Tinker API is. */
export interface TinkerAddress {
  /** Base URL, without `/api/v1`. */
  readonly url: string
  /** Sent as `X-API-Key`; open servers take any. Default: `tml-none`. */
  readonly apiKey?: string | undefined
  /** How long one request may wait for its result. Milliseconds; default 30 minutes. */
  readonly patienceMs?: number | undefined
}

type Json = Readonly<Record<string, unknown>>

/** Bytes. Logprobs of a large batch. */
const longestAnswer = 512 * 1024 * 1024
const retries = 8

/**
 * Requests to the Tinker API in its JSON form, as SkyRL (August 2026), Open-RL (April 2026) and version 0.25 of the official
 * SDK speak it. Long calls answer with the id of a future, which is fetched until its result is there.
 */
export class TinkerClient {
  readonly #base: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #patienceMs: number
  readonly #transport: Transport
  readonly #closed = new AbortController()

  constructor({ url, apiKey = 'tml-none', patienceMs = 30 * 60_000 }: TinkerAddress) {
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      throw new OsmosisError(
        'invalid_config',
        `"${url}" is not the URL of a Tinker service. Write it like http://127.0.0.1:8000.`,
      )
    }
    this.#base = url.replace(/\/+$/, '')
    this.#patienceMs = patienceMs
    this.#headers = {
      'content-type': 'application/json',
      accept: 'application/json',
      'x-api-key': apiKey,
      'user-agent': 'osmosis-train (tinker 0.25, json)',
    }
    this.#transport = createTransport({
      name: 'Tinker service',
      codes: { unreachable: 'learner_error', refused: 'learner_error' },
    })
  }

  /**
   * Sends a request, and again when the answer is lost or says to wait.
   *
   * @throws OsmosisError with code `unauthorized`, or `learner_error` with what the service said
   */
  async post(route: string, body: Json): Promise<Json> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#send(route, body)
      } catch (error) {
        const waitMs = waitAfter(error, attempt)
        if (waitMs === undefined || attempt >= retries) throw error
        await sleep(waitMs, undefined, { signal: this.#closed.signal })
      }
    }
  }

  /** Sends a request whose answer is a future, and resolves with the result of that. */
  async call(route: string, body: Json): Promise<Json> {
    const deadline = Date.now() + this.#patienceMs
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.result(await this.post(route, body), deadline)
      } catch (error) {
        // The service lost the result: the original request is sent again.
        if (!(error instanceof LostFuture) || attempt >= retries) throw error
      }
    }
  }

  /** The result of a future. Throws {@link LostFuture} when the service no longer has it. */
  async result({ request_id: id }: Json, deadline = Date.now() + this.#patienceMs): Promise<Json> {
    for (;;) {
      if (Date.now() > deadline) {
        throw new OsmosisError(
          'learner_error',
          `The Tinker service has not finished request ${String(id)} in ${this.#patienceMs / 60_000} minutes.`,
        )
      }
      const answer = await this.post('retrieve_future', { request_id: id })
      if (answer['type'] === 'try_again') continue
      const failure = answer['error'] ?? answer['error_message']
      if (failure !== undefined && answer['category'] !== undefined) {
        throw new OsmosisError('learner_error', `The Tinker service failed: ${textOf(failure)}`)
      }
      return answer
    }
  }

  /** Breaks off what is in progress. */
  async close(): Promise<void> {
    this.#closed.abort(new OsmosisError('learner_error', 'The Tinker client is closed.'))
    await this.#transport.close()
  }

  async #send(route: string, body: Json): Promise<Json> {
    const answer = await this.#transport.send(`${this.#base}/api/v1/${route}`, {
      headers: this.#headers,
      body: JSON.stringify(body),
      signal: this.#closed.signal,
    })
    const text = (await boundedText(answer.body, longestAnswer)) ?? ''
    const { status } = answer
    if (status === 200) return JSON.parse(text) as Json
    if (status === 408) return { type: 'try_again' }
    if (status === 410) throw new LostFuture()
    const said = saidIn(text)
    if (status === 401 || status === 403) {
      throw new OsmosisError(
        'unauthorized',
        `The Tinker service refuses the key (${status}): ${said}`,
        { status },
      )
    }
    const spent = status === 402 ? ' Its account has no credit left.' : ''
    throw new OsmosisError(
      'learner_error',
      `The Tinker service answered ${status} to ${route}: ${said}${spent}`,
      { status, retryAfterMs: retryAfterMs(answer.headers) },
    )
  }
}

class LostFuture extends Error {}

/** Milliseconds until a request may be sent again; undefined when that cannot help. */
function waitAfter(error: unknown, attempt: number): number | undefined {
  if (!(error instanceof OsmosisError) || error.code !== 'learner_error') return undefined
  const { status, retryAfterMs: asked } = error
  const isLost = status === undefined && error.cause !== undefined
  if (!isLost && status !== 429 && (status ?? 0) < 500) return undefined
  return asked ?? Math.min(30_000, 250 * 2 ** attempt)
}

function saidIn(text: string): string {
  try {
    const found = JSON.parse(text) as Json
    return textOf(found['error_message'] ?? found['detail'] ?? found['error'] ?? text)
  } catch {
    return text.slice(0, 500)
  }
}

function textOf(said: unknown): string {
  return typeof said === 'string' ? said : JSON.stringify(said)
}
