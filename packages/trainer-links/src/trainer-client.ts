import { isOsmosisError, OsmosisError } from '@osmosis/core'
import {
  assertApiKey,
  bearer,
  beginningOf,
  createTransport,
  retryRequest,
  shownUrl,
  withTimeLimit,
  type HttpResponse,
  type Transport,
} from '@osmosis/core/http'
import { boundedText } from '@osmosis/protocol/http'
import { parsePlainJson } from '@osmosis/protocol/wire'
import { ConcurrencyLimiter } from '@osmosis/server/execution'

/** The address of a trainer's API. */
export interface TrainerClientOptions {
  /** The trainer, as messages name it after "the". */
  readonly name: string
  /** Base URL, without a slash at the end. */
  readonly url: string
  /** Bearer; default: none is sent. */
  readonly apiKey?: string | undefined
}

/** A request to a trainer. */
export interface TrainerRequest {
  readonly method: 'GET' | 'POST' | 'PATCH'
  /** Path and query. */
  readonly path: string
  readonly body?: unknown
}

const never = new AbortController().signal
/** Bytes. A list may hold the rows of thousands of rollouts. */
const maxAnswerBytes = 512 * 1024 * 1024
/** How long one request may take. Milliseconds. */
const requestMs = 30_000
/** How long a report is retried. Milliseconds. */
const reportMs = 600_000

/** Requests to the JSON API of a trainer. The caller that opens a client closes it. */
export class TrainerClient {
  readonly #options: TrainerClientOptions
  readonly #headers: Readonly<Record<string, string>>
  readonly #transport: Transport
  /** Thousands of rollouts may end at once. */
  readonly #slots = new ConcurrencyLimiter(64)
  /** The trainer's clock minus our own. */
  #clockOffsetMs = 0

  /** @throws OsmosisError with code `invalid_config` for a URL or a key that cannot be sent */
  constructor(options: TrainerClientOptions) {
    const { name, url, apiKey } = options
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      throw new OsmosisError(
        'invalid_config',
        `The URL of the ${name} is not an http or https URL: "${shownUrl(url)}". Write it like http://127.0.0.1:8080.`,
      )
    }
    const { username, password, search, hash } = new URL(url)
    if (username || password || search || hash) {
      throw new OsmosisError(
        'invalid_config',
        `The URL of the ${name} must have no credentials, query and fragment. Write it like http://127.0.0.1:8080, and pass a key as apiKey, or in OSMOSIS_TRAINER_KEY for \`osmosis worker\`.`,
      )
    }
    assertApiKey(apiKey)
    this.#options = { ...options, url: url.replace(/\/+$/, '') }
    this.#headers = { 'content-type': 'application/json', ...bearer(apiKey) }
    this.#transport = createTransport({
      name,
      codes: { unreachable: 'protocol_error', refused: 'protocol_error' },
    })
  }

  get url(): string {
    return this.#options.url
  }

  /**
   * Sends a request once.
   *
   * @param outer - aborts it
   * @throws OsmosisError with code `unauthorized`, `protocol_error`
   */
  async send({ method, path, body }: TrainerRequest, outer: AbortSignal = never): Promise<unknown> {
    const { name, url } = this.#options
    const release = await this.#slots.acquire(outer)
    const late = (): Error =>
      new OsmosisError('protocol_error', `The ${name} did not answer within ${requestMs / 1000} s.`)
    try {
      return await withTimeLimit({ limitMs: requestMs, outer, late }, async (signal) => {
        const answer = await this.#transport.post(`${url}${path}`, {
          method,
          headers: this.#headers,
          ...(body !== undefined && { body: JSON.stringify(body) }),
          signal,
        })
        this.#readClock(answer)
        const text = await boundedText(answer.body, maxAnswerBytes)
        if (text === undefined) throw new OsmosisError('protocol_error', `${name}: answer too long`)
        return text === '' ? null : this.#parsed(text)
      })
    } catch (error) {
      if (statusOf(error) !== 401 && statusOf(error) !== 403) throw error
      const key = this.#options.apiKey === undefined ? 'wants a key' : 'refuses the key'
      throw new OsmosisError(
        'unauthorized',
        `The ${name} at ${url} ${key} (${statusOf(error)}): set apiKey, or OSMOSIS_TRAINER_KEY for \`osmosis worker\`.`,
      )
    } finally {
      release()
    }
  }

  /**
   * Sends a request until the trainer answers it.
   *
   * @param signal - ends the wait between two tries, and aborts a GET
   * @param onRetry - called with the error before each retry
   */
  async fetch(
    request: TrainerRequest,
    signal: AbortSignal,
    onRetry: (error: unknown) => void = () => {},
  ): Promise<unknown> {
    return this.#retried(request, { signal, onRetry, totalMs: Number.POSITIVE_INFINITY })
  }

  /**
   * Sends a report, and retries it for up to ten minutes.
   *
   * @param signal - ends the wait between two tries, and aborts a GET; default: none
   * @returns the answer; undefined for 404 and 409, after which the trainer no longer needs the report
   */
  async report(request: TrainerRequest, signal?: AbortSignal): Promise<unknown> {
    try {
      return await this.#retried(request, { totalMs: reportMs, signal })
    } catch (error) {
      if (statusOf(error) === 404 || statusOf(error) === 409) return undefined
      throw error
    }
  }

  /** The trainer's time by its latest answer, or ours before the first one. Seconds since the epoch. */
  now(): number {
    return (Date.now() + this.#clockOffsetMs) / 1000
  }

  #readClock({ headers }: HttpResponse): void {
    const date = headers instanceof Headers ? headers.get('date') : headers['date']
    const time = typeof date === 'string' ? Date.parse(date) : Number.NaN
    if (Number.isFinite(time)) this.#clockOffsetMs = time - Date.now()
  }

  async close(): Promise<void> {
    await this.#transport.close()
  }

  async #retried(
    request: TrainerRequest,
    options: {
      signal?: AbortSignal | undefined
      totalMs: number
      onRetry?: (error: unknown) => void
    },
  ): Promise<unknown> {
    // Aborting any other request would leave open whether it took effect.
    const outer = request.method === 'GET' ? options.signal : undefined
    return retryRequest(async () => this.send(request, outer), {
      ...options,
      retries: Number.POSITIVE_INFINITY,
      minDelayMs: 500,
      maxDelayMs: 15_000,
      isRetryable: (error) => {
        const isTransient = this.isTransient(error)
        if (isTransient) options.onRetry?.(error)
        return isTransient
      },
    })
  }

  /** Whether the same request may succeed later. */
  isTransient(error: unknown): boolean {
    if (!isOsmosisError(error)) return true
    return !(error.cause instanceof SyntaxError) && this.#transport.isTransient(error)
  }

  #parsed(text: string): unknown {
    try {
      return parsePlainJson(text)
    } catch (cause) {
      const { name, url } = this.#options
      const beginning = beginningOf(text, 200)
      const why = `The server at ${url} is not the ${name}: its answer is not JSON: "${beginning}".`
      throw new OsmosisError('protocol_error', why, { cause })
    }
  }
}

/** The HTTP status of an error; undefined when it has none. */
export function statusOf(error: unknown): number | undefined {
  return isOsmosisError(error) ? error.status : undefined
}
