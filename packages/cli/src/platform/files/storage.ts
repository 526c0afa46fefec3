import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { open, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { isLoopback, wait } from '@osmosis/core/http'
import { Agent, request, type Dispatcher } from 'undici'

import { PlatformError } from '../client/platform-error.ts'

/** A piece of a file. */
export interface FilePiece {
  readonly file: string
  readonly start: number
  readonly size: number
}

const putPauses = [1000, 2000, 4000, 8000]
const mostRedirects = 20
/** Milliseconds without a byte of a download. */
const idleMs = 60_000

/** The storage behind presigned URLs. It receives no login. */
export class Storage {
  readonly #agent = new Agent({
    headersTimeout: 0,
    bodyTimeout: idleMs,
    connect: { timeout: 10_000 },
  })
  readonly #signal: AbortSignal
  readonly #pause: typeof wait

  constructor(options: { signal: AbortSignal; pause?: typeof wait | undefined }) {
    this.#signal = options.signal
    this.#pause = options.pause ?? wait
  }

  /**
   * Uploads a piece of a file, up to five times, and resolves with its ETag.
   *
   * @throws PlatformError with code `PLATFORM_ERROR`; its message does not contain the signature. OsmosisError with code
   * `invalid_dataset` when the file cannot be read
   */
  async put(
    url: string,
    piece: FilePiece,
    { headers = {}, timeoutMs }: { headers?: Record<string, string>; timeoutMs: number },
  ): Promise<string | undefined> {
    const target = storageUrl(url)
    return retryTransient(
      async () => {
        const body = piece.size === 0 ? '' : await readPiece(piece)
        const answer = await this.#ask(target, timeoutMs, {
          method: 'PUT',
          headers: { ...headers, 'content-length': String(piece.size) },
          body,
        })
        await answer.body.dump()
        if (answer.statusCode > 299) throw refused(target, answer.statusCode)
        const { etag } = answer.headers
        return typeof etag === 'string' ? etag.replaceAll('"', '') : undefined
      },
      putPauses,
      { signal: this.#signal, pause: this.#pause },
    )
  }

  /**
   * Downloads to a file, which is created only when the download is complete.
   *
   * @throws PlatformError with code `PLATFORM_ERROR`; `status` is that of the storage
   */
  async download(url: string, file: string, expectedSize?: number): Promise<void> {
    // A longer name than that of the file may be too long.
    const unfinished = path.join(path.dirname(file), `${randomUUID()}.tmp`)
    try {
      const answer = await this.#follow(url)
      await pipeline(answer.body, createWriteStream(unfinished, { flags: 'wx' }), {
        signal: this.#signal,
      })
      const { size } = await stat(unfinished)
      if (expectedSize !== undefined && size !== expectedSize) {
        throw new PlatformError(
          'PLATFORM_ERROR',
          `${file} should have ${expectedSize} bytes, but ${size} were received.`,
        )
      }
      await rename(unfinished, file)
    } catch (error) {
      await rm(unfinished, { force: true })
      this.#signal.throwIfAborted()
      if (error instanceof PlatformError) throw error
      throw new PlatformError(
        'PLATFORM_ERROR',
        `The download of ${file} failed: ${errorMessage(error)}`,
        { cause: error },
      )
    }
  }

  /** Closes the connections. */
  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #follow(url: string): Promise<Dispatcher.ResponseData> {
    let target = storageUrl(url)
    for (let redirects = 0; redirects <= mostRedirects; redirects += 1) {
      const answer = await this.#ask(target, idleMs, { method: 'GET' })
      const { statusCode: status, headers } = answer
      if (status >= 200 && status <= 299) return answer
      await answer.body.dump()
      const { location } = headers
      if (status < 300 || status > 399 || typeof location !== 'string') {
        throw refused(target, status)
      }
      if (!URL.canParse(location, target.href)) break
      target = storageUrl(new URL(location, target).href)
    }
    throw new PlatformError('PLATFORM_ERROR', 'The storage redirects too often.')
  }

  /** The timeout covers sending, and waiting for the beginning of the answer. */
  async #ask(
    url: URL,
    timeoutMs: number,
    options: {
      method: 'GET' | 'PUT'
      headers?: Record<string, string>
      body?: string | Readable
    },
  ): Promise<Dispatcher.ResponseData> {
    const late = new AbortController()
    const timer = setTimeout(
      () => late.abort(new Error(`nothing came in ${timeoutMs / 1000} s`)),
      timeoutMs,
    )
    try {
      return await request(url, {
        method: options.method,
        headers: options.headers ?? {},
        body: options.body ?? null,
        signal: AbortSignal.any([this.#signal, late.signal]),
        dispatcher: this.#agent,
      })
    } catch (error) {
      this.#signal.throwIfAborted()
      throw new PlatformError(
        'PLATFORM_ERROR',
        `No answer from the storage ${url.host}: ${errorMessage(error)}`,
        { cause: error },
      )
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Opened before the request, which would blame the storage for a file that cannot be read. */
async function readPiece({ file, start, size }: FilePiece): Promise<Readable> {
  try {
    return (await open(file)).createReadStream({ start, end: start + size - 1 })
  } catch (cause) {
    const message = `The dataset ${file} cannot be read: ${errorMessage(cause)}`
    throw new OsmosisError('invalid_dataset', message, { cause })
  }
}

const passing = new Set([429, 500, 502, 503, 504])

/** Repeats an attempt while it fails with a temporary error. */
export async function retryTransient<T>(
  attempt: () => Promise<T>,
  pauses: readonly number[],
  { signal, pause = wait }: { signal: AbortSignal; pause?: typeof wait | undefined },
): Promise<T> {
  for (const ms of pauses) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error
      if (error.status !== undefined && !passing.has(error.status)) throw error
      await pause(ms, signal)
    }
  }
  return attempt()
}

/** @throws PlatformError for an address that would send data unencrypted */
function storageUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'https:') return url
  if (url?.protocol === 'http:' && isLoopback(url.hostname)) return url
  throw new PlatformError('PLATFORM_ERROR', 'The platform named a storage without https.')
}

/** Omits the query of the URL, which contains the signature. */
function refused(url: URL, status: number): PlatformError {
  return new PlatformError('PLATFORM_ERROR', `The storage ${url.host} answered ${status}.`, {
    status,
    details: { status_code: status },
  })
}
