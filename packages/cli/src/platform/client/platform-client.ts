import { errorMessage } from '@osmosis/core'
import { isJsonObject, parseJson } from '@osmosis/core/http'
import { Agent, request, type Dispatcher } from 'undici'

import { toPage, type JsonObject, type ListRange, type Page } from './answers.ts'
import { toAnswerError, PlatformError, wrongUse } from './platform-error.ts'

/** The workspace of a request: by its repository, or by its name. */
export type Scope = { readonly git: string } | { readonly workspace: string }

/** Options of {@link PlatformClient}. */
interface PlatformClientOptions {
  /** Normalised base URL. */
  readonly url: string
  /** Version of the command line, which the platform checks. */
  readonly version: string
  /** Login token; undefined for requests without a login. */
  readonly token?: string | undefined
  readonly scope?: Scope | undefined
  /** Cancels running requests. */
  readonly signal: AbortSignal
  /**
   * Called for every answer with a status of the version: `current`, `upgrade_available`, `deprecated` or
   * `unsupported`.
   */
  readonly onVersionStatus?: ((status: string, message: string) => void) | undefined
}

/** One request, below `/api/cli`. */
interface PlatformRequest {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly query?: Readonly<Record<string, string | number | undefined>>
  readonly body?: JsonObject
  /** Milliseconds; default 30 s. */
  readonly timeoutMs?: number
  /** Omits the workspace. */
  readonly unscoped?: boolean
  /** For clean-up: the signal of the client does not cancel it. */
  readonly regardless?: boolean
}

const defaultTimeoutMs = 30_000
/** Maximum number of items in a page of a list. */
const largestPage = 50

/** Sends requests to the platform, each once. Every refusal is a PlatformError. */
export class PlatformClient {
  readonly #options: PlatformClientOptions
  readonly #agent = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 10_000 } })

  constructor(options: PlatformClientOptions) {
    this.#options = options
  }

  /** Normalised base URL. */
  get url(): string {
    return this.#options.url
  }

  /**
   * Sends a request and resolves with the JSON object in the answer; `{}` for an empty answer.
   *
   * @param path - segments, each of which is encoded as a whole
   * @throws PlatformError with the code of the answer; `PLATFORM_ERROR` without an answer
   */
  async request(path: readonly string[], options: PlatformRequest = {}): Promise<JsonObject> {
    const { timeoutMs = defaultTimeoutMs } = options
    const url = new URL(
      `${this.#options.url}/api/cli/${path.map((segment) => encodeSegment(segment)).join('/')}`,
    )
    for (const [name, value] of Object.entries(options.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value))
    }
    const late = AbortSignal.timeout(timeoutMs)
    const signals = options.regardless ? [late] : [this.#options.signal, late]
    try {
      const answer = await request(url, {
        method: options.method ?? 'GET',
        headers: this.#headers(options),
        body: options.body === undefined ? null : JSON.stringify(options.body),
        signal: AbortSignal.any(signals),
        dispatcher: this.#agent,
      })
      return this.#read(answer, await answer.body.text())
    } catch (error) {
      if (error instanceof PlatformError) throw error
      this.#options.signal.throwIfAborted()
      const why = late.aborted ? `nothing came in ${timeoutMs / 1000} s` : errorMessage(error)
      throw new PlatformError(
        'PLATFORM_ERROR',
        `No answer from the platform ${this.#options.url}: ${why}`,
        { cause: error },
      )
    }
  }

  /** Reads one page of a list, or every page. */
  async list(
    path: readonly string[],
    /** Key of the items in an answer. */
    key: string,
    { all = false, limit = largestPage, offset = 0 }: ListRange,
    query: PlatformRequest['query'] = {},
  ): Promise<Page> {
    const read = async (from: number): Promise<Page> =>
      toPage(await this.request(path, { query: { ...query, limit, offset: from } }), key, from)
    let last = await read(offset)
    if (!all) return last
    const items = [...last.items]
    // Ends at a page that does not advance, to avoid an endless loop.
    for (let from = offset; last.nextOffset !== null && last.nextOffset > from;) {
      from = last.nextOffset
      last = await read(from)
      items.push(...last.items)
    }
    return { ...last, items }
  }

  /** Closes the connections. */
  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  #headers({ unscoped }: PlatformRequest): Record<string, string> {
    const { version, token, scope } = this.#options
    return {
      'content-type': 'application/json',
      accept: 'application/json',
      'user-agent': `osmosis-cli/${version}`,
      'x-osmosis-cli-version': version,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(!unscoped && scope !== undefined && scopeHeader(scope)),
    }
  }

  #read({ statusCode, headers }: Dispatcher.ResponseData, text: string): JsonObject {
    const status = headers['x-osmosis-version-status']
    const message = headers['x-osmosis-version-message']
    if (typeof status === 'string') this.#options.onVersionStatus?.(status, String(message ?? ''))
    if (statusCode < 200 || statusCode > 299) throw toAnswerError(statusCode, text)
    if (text.trim() === '') return {}
    const json = parseJson(text)
    if (isJsonObject(json)) return json
    throw new PlatformError('PLATFORM_ERROR', 'The platform did not answer with a JSON object.', {
      status: statusCode,
      details: { status_code: statusCode },
    })
  }
}

function scopeHeader(scope: Scope): Record<string, string> {
  if ('git' in scope) return { 'x-osmosis-git': scope.git }
  return { 'x-osmosis-workspace': scope.workspace }
}

/** Names may contain any character; `.` and `..` would be resolved as folders. */
function encodeSegment(segment: string): string {
  if (segment === '' || segment === '.' || segment === '..') {
    throw wrongUse(`${JSON.stringify(segment)} is not a name.`)
  }
  return encodeURIComponent(segment)
}
