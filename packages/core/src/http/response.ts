/** Headers of an answer, as undici, `node:http` or `fetch` have them. */
export type ResponseHeaders = Headers | Readonly<Record<string, string | string[] | undefined>>

/** An answer whose status line and headers have arrived. Its body has to be read, drained or destroyed. */
export interface HttpResponse {
  readonly status: number
  readonly headers: ResponseHeaders
  /** '' when the header is missing. */
  readonly contentType: string
  readonly body: ResponseBody
}

/** The first value of a header, '' without one. `name` is in lower case. */
export function headerOf(headers: ResponseHeaders, name: string): string {
  const value = isFetchHeaders(headers) ? headers.get(name) : headers[name]
  return ((Array.isArray(value) ? value[0] : value) ?? '').trim()
}

function isFetchHeaders(headers: ResponseHeaders): headers is Headers {
  return typeof headers.get === 'function'
}

/** The connection is paused while more than this is unread. Bytes. */
const maxUnreadBytes = 1024 * 1024

/** What a body does to its connection. */
interface BodySource {
  pause(): void
  resume(): void
  /** Closes it. */
  abort(reason: Error): void
}

/**
 * The bytes of an answer. They are buffered as they arrive, because a connection that breaks loses what it
 * holds, and its last bytes often name the reason. A body has to be read to its end, drained or destroyed;
 * leaving a loop over it destroys it.
 */
export class ResponseBody implements AsyncIterable<Uint8Array> {
  readonly #source: BodySource
  #pieces: Uint8Array[] = []
  #unreadBytes = 0
  #paused = false
  #ignored = false
  #end: { readonly failed: boolean; readonly error: unknown } | undefined
  #wake: (() => void) | undefined

  constructor(source: BodySource) {
    this.#source = source
  }

  /** For the receiver of the answer, like `end`. */
  push(piece: Uint8Array): void {
    if (this.#ignored) return
    this.#pieces.push(piece)
    this.#unreadBytes += piece.length
    if (this.#unreadBytes > maxUnreadBytes && !this.#paused) {
      this.#paused = true
      this.#source.pause()
    }
    this.#wake?.()
  }

  /** @param error - why the answer broke off; undefined when it is complete */
  end(error?: unknown): void {
    this.#end ??= { failed: error !== undefined, error }
    this.#wake?.()
  }

  /**
   * The pieces that have arrived since the last call, at least one; undefined at the end.
   *
   * @throws the error that the answer broke off with, after all pieces have been read
   */
  async next(): Promise<readonly Uint8Array[] | undefined> {
    while (this.#pieces.length === 0) {
      if (this.#end !== undefined) {
        if (this.#end.failed) throw this.#end.error
        return undefined
      }
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
    const pieces = this.#pieces
    this.#pieces = []
    this.#unreadBytes = 0
    this.#resume()
    return pieces
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    try {
      for (let pieces = await this.next(); pieces !== undefined; pieces = await this.next()) {
        yield* pieces
      }
    } finally {
      this.destroy()
    }
  }

  /** Ignores the rest, and leaves the connection open for the next request. */
  drain(): void {
    this.#ignored = true
    this.#pieces = []
    this.#resume()
  }

  /**
   * Ignores the rest, and closes the connection unless the answer is complete.
   *
   * @param why - what a pending `next` rejects with
   */
  destroy(why?: Error): void {
    this.#ignored = true
    this.#pieces = []
    if (this.#end !== undefined) return
    const reason = why ?? new Error('its reader stopped')
    this.end(reason)
    this.#source.abort(reason)
  }

  #resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#source.resume()
  }
}
