import { isOsmosisError, OsmosisError } from '@osmosis/core'
import {
  createTransport,
  parseJson,
  retryAfterMs,
  shownUrl,
  wait,
  type Transport,
} from '@osmosis/core/http'
import { boundedBytes } from '@osmosis/protocol/http'

import type { ForwardBackward } from './tinker-data.ts'
import type { TinkerAddress } from './tinker-options.ts'
import {
  decodeForwardBackward,
  decodeSample,
  encodeForwardBackward,
  protobufType,
} from './tinker-protobuf.ts'

type Json = Readonly<Record<string, unknown>>

/** How a request is sent. */
interface RequestOptions {
  /** Gives it up. */
  readonly signal?: AbortSignal | undefined
  /** How often it is sent again when its answer is lost or says to wait. Default: 8. */
  readonly retries?: number
  /** Whether the service does it once only, however often it is sent. Default: true. */
  readonly isRepeatable?: boolean
  /** The route whose result is fetched. */
  readonly resultOf?: string
}

/** Bytes. Logprobs of a large batch. */
const longestAnswer = 512 * 1024 * 1024
const mostRetries = 8
/** Between two looks for a result, if a service answers at once that it is not there. */
const pauseMs = 100
/** Longest wait before a request is sent again, whatever its answer asks for. Milliseconds. */
const mostPauseMs = 60_000

const decoders: Readonly<Record<string, (message: Buffer) => unknown>> = {
  asample: decodeSample,
  forward_backward: decodeForwardBackward,
}

/**
 * Requests to the Tinker API, as SkyRL (August 2026), Open-RL (April 2026) and the official SDK (0.25 to 0.38) speak it.
 * Long calls answer with the id of a future, which is fetched until its result is there.
 */
export class TinkerClient {
  readonly #base: string
  readonly #apiKey: string | undefined
  readonly #headers: Readonly<Record<string, string>>
  #isProtobuf: boolean
  readonly #patienceMs: number
  readonly #transport: Transport
  readonly #closed = new AbortController()

  constructor({ url, apiKey, patienceMs = 30 * 60_000, wire = 'json' }: TinkerAddress) {
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      throw new OsmosisError(
        'invalid_config',
        `"${shownUrl(url)}" is not the URL of a Tinker service. Write it like http://127.0.0.1:8000.`,
      )
    }
    this.#base = url.replace(/\/+$/, '')
    this.#apiKey = apiKey
    this.#isProtobuf = wire === 'protobuf'
    this.#patienceMs = patienceMs
    this.#headers = {
      'x-api-key': apiKey ?? 'tml-none',
      'user-agent': `osmosis-train (tinker 0.25, ${wire})`,
    }
    this.#transport = createTransport({
      name: 'Tinker service',
      codes: { unreachable: 'learner_error', refused: 'learner_error' },
    })
  }

  /**
   * Sends a request, and again when its answer is lost or says to wait.
   *
   * @throws OsmosisError with code `unauthorized`, or `learner_error` with what the service said
   */
  async post(route: string, body: Json, options: RequestOptions = {}): Promise<Json> {
    const { retries = mostRetries, signal = this.#closed.signal, isRepeatable = true } = options
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#send(route, body, { ...options, signal })
      } catch (error) {
        signal.throwIfAborted()
        if (this.#closed.signal.aborted) throw this.#closed.signal.reason
        if (attempt >= retries || !isOsmosisError(error)) throw error
        if (error.status === 415 && !this.#isProtobuf) {
          this.#isProtobuf = true
          continue
        }
        // An answer that was lost has neither a status nor another problem than its cause.
        const isLost = error.status === undefined && error.cause !== undefined
        const isRefused = error.status === 429 || error.status === 503
        const canPass = isRepeatable ? isLost || error.status !== undefined : isRefused
        if (!canPass || !this.#transport.isTransient(error)) throw error
        const requested = error.retryAfterMs ?? Math.min(30_000, 250 * 2 ** attempt)
        await wait(Math.min(requested, mostPauseMs), signal)
      }
    }
  }

  /** Sends a request whose answer is a future, and resolves with the result of that. */
  async call(
    route: string,
    body: Json,
    options: Pick<RequestOptions, 'signal' | 'isRepeatable'> = {},
  ): Promise<Json> {
    const { signal, isRepeatable = true } = options
    const deadline = performance.now() + this.#patienceMs
    for (let attempt = 0; ; attempt += 1) {
      const future = await this.post(route, body, options)
      try {
        return await this.#result(route, future['request_id'], { deadline, signal })
      } catch (error) {
        if (!(error instanceof LostFuture) || !isRepeatable || attempt >= mostRetries) throw error
      }
    }
  }

  /** Breaks off what is in progress. */
  async close(): Promise<void> {
    this.#closed.abort(new OsmosisError('learner_error', 'The Tinker client is closed.'))
    await this.#transport.close()
  }

  /** @throws LostFuture when the service no longer has it */
  async #result(
    route: string,
    id: unknown,
    { deadline, signal }: { readonly deadline: number; readonly signal: AbortSignal | undefined },
  ): Promise<Json> {
    if (typeof id !== 'string') throw unexpected(route, 'it has no request_id')
    while (performance.now() < deadline) {
      const answer = await this.post(
        'retrieve_future',
        { request_id: id },
        { signal, resultOf: route },
      )
      if (answer['type'] === 'try_again') {
        await wait(pauseMs, signal ?? this.#closed.signal)
        continue
      }
      const failure = answer['error'] ?? answer['error_message']
      if (failure === undefined || failure === null) return answer
      throw new OsmosisError(
        'learner_error',
        `${route} failed on the Tinker service: ${this.#shown(failure)}`,
        { status: answer['category'] === 'user' ? 400 : 500 },
      )
    }
    throw new OsmosisError(
      'learner_error',
      `The Tinker service has not finished ${route} (request ${id}) in ${this.#patienceMs / 60_000} minutes.`,
    )
  }

  async #send(
    route: string,
    body: Json,
    { signal = this.#closed.signal, resultOf = '' }: RequestOptions,
  ): Promise<Json> {
    const isBinary = this.#isProtobuf && route === 'forward_backward'
    const wantsBinary = this.#isProtobuf && Object.hasOwn(decoders, resultOf)
    const answer = await this.#transport.send(`${this.#base}/api/v1/${route}`, {
      headers: {
        ...this.#headers,
        'content-type': isBinary ? protobufType : 'application/json',
        accept: wantsBinary ? protobufType : 'application/json',
      },
      body: isBinary
        ? encodeForwardBackward(body as unknown as ForwardBackward)
        : JSON.stringify(body),
      signal,
    })
    const content = await boundedBytes(answer.body, longestAnswer).catch((cause: unknown) => {
      signal.throwIfAborted()
      const message = `The answer of the Tinker service to ${route} broke off.`
      throw new OsmosisError('learner_error', message, { cause })
    })
    const { status, contentType } = answer
    if (content === undefined) throw unexpected(route, `it is longer than ${longestAnswer} bytes`)
    if (status === 200) return this.#read(content, contentType, resultOf || route)
    if (status === 408 && route === 'retrieve_future') return { type: 'try_again' }
    const reason = this.#reasonIn(content.toString('utf8'))
    const details = { status, retryAfterMs: retryAfterMs(answer.headers) }
    if (status === 410) throw new LostFuture(resultOf || route)
    if (status === 401 || status === 403) {
      throw new OsmosisError(
        'unauthorized',
        `The Tinker service refuses the key (${status}): ${reason}`,
        details,
      )
    }
    const spent = status === 402 ? ' Its account has no credit left: add some and continue.' : ''
    throw new OsmosisError(
      'learner_error',
      `The Tinker service answered ${status} to ${resultOf || route}: ${reason}${spent}`,
      details,
    )
  }

  #read(content: Buffer, contentType: string, route: string): Json {
    const decode = decoders[route]
    try {
      const found: unknown =
        contentType.includes(protobufType) && decode !== undefined
          ? decode(content)
          : JSON.parse(content.toString('utf8'))
      // A result may be null.
      return (found ?? {}) as Json
    } catch {
      throw unexpected(route, `it is not ${contentType || 'JSON'}`)
    }
  }

  #reasonIn(text: string): string {
    const found = parseJson(text) as Json | null | undefined
    if (found === undefined || found === null) return this.#shown(text.slice(0, 500))
    return this.#shown(found['error_message'] ?? found['detail'] ?? found['error'] ?? text)
  }

  /** What the service says, without the key, which some services repeat. */
  #shown(reason: unknown): string {
    const text = typeof reason === 'string' ? reason : JSON.stringify(reason)
    return this.#apiKey ? text.replaceAll(this.#apiKey, '[the key]') : text
  }
}

/** The service lost a result: the original request is sent again. */
class LostFuture extends OsmosisError {
  constructor(route: string) {
    super('learner_error', `The Tinker service lost the result of ${route}.`, { status: 410 })
  }
}

function unexpected(route: string, problem: string): OsmosisError {
  return new OsmosisError(
    'learner_error',
    `The answer to ${route} is not that of a Tinker service: ${problem}. Check the URL.`,
  )
}
