/** A reader that is this far behind holds the sender up. Bytes. */
const mostHeld = 1024 * 1024

/** What a body does to the connection it comes over. */
interface BodySource {
  pause(): void
  resume(): void
  /** Closes it. */
  abort(reason: Error): void
}

/**
 * The bytes of an answer. They are taken from the connection as they come: what it holds is lost when
 * it breaks, and the last words before that often say why. To be read to the end, drained, or
 * destroyed; leaving a loop over it early destroys it.
 */
export class AnswerBody implements AsyncIterable<Uint8Array> {
  readonly #source: BodySource
  #pieces: Uint8Array[] = []
  #held = 0
  #paused = false
  #unread = false
  #end: { readonly broke: boolean; readonly error: unknown } | undefined
  #wake: (() => void) | undefined

  constructor(source: BodySource) {
    this.#source = source
  }

  /** Takes what has come. For whoever receives it; the same goes for `end`. */
  push(piece: Uint8Array): void {
    if (this.#unread) return
    this.#pieces.push(piece)
    this.#held += piece.length
    if (this.#held > mostHeld && !this.#paused) {
      this.#paused = true
      this.#source.pause()
    }
    this.#wake?.()
  }

  /** @param error - what it broke off with; undefined: it is whole */
  end(error?: unknown): void {
    this.#end ??= { broke: error !== undefined, error }
    this.#wake?.()
  }

  /**
   * The pieces that have come since the last time, at least one; undefined at the end.
   *
   * @throws what it broke off with, behind everything that had come
   */
  async next(): Promise<readonly Uint8Array[] | undefined> {
    while (this.#pieces.length === 0) {
      if (this.#end !== undefined) {
        if (this.#end.broke) throw this.#end.error
        return undefined
      }
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
    const pieces = this.#pieces
    this.#pieces = []
    this.#held = 0
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

  /** Reads no more, and leaves the connection open for what is asked next. */
  drain(): void {
    this.#unread = true
    this.#pieces = []
    this.#resume()
  }

  /**
   * Reads no more, and closes the connection unless all of it has come.
   *
   * @param reason - what a reader that waits in `next` gets
   */
  destroy(reason: Error = new Error('its reader stopped')): void {
    this.#unread = true
    this.#pieces = []
    if (this.#end !== undefined) return
    this.end(reason)
    this.#source.abort(reason)
  }

  #resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#source.resume()
  }
}
