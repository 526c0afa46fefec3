import type { Dispatcher } from 'undici'

import { ResponseBody, headerOf, type HttpResponse } from './response.ts'

/** One request. */
export interface HttpRequest {
  /** Default: POST with a body, GET without one. */
  readonly method?: 'GET' | 'POST' | 'PATCH' | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array | undefined
  /** The only limit on how long the answer may take. */
  readonly signal: AbortSignal
  /** Closes the connection after the answer instead of reusing it. */
  readonly closeConnection?: boolean | undefined
  /** What its sender calls the address and the key of the endpoint, for advice in messages. */
  readonly names?: EndpointNames | undefined
}

/** What the sender of requests calls what it knows of their endpoint: fields of a body, flags, environment variables. */
export interface EndpointNames {
  /** Of its address, such as `chat_completions_url`. */
  readonly url: string
  /** Of its key, such as `llm_api_key`. */
  readonly key: string
}

/** Connections that requests are sent over. */
export interface Connections {
  dispatch(request: Dispatcher.DispatchOptions, receiver: Dispatcher.DispatchHandler): unknown
}

/**
 * Sends one request and resolves with its answer when the headers have arrived. Undici's `request` does the same with a
 * `Readable`, which takes 1.5 to 2.4 times the CPU: 110 µs instead of 64 µs for an answer of 20 chunks, 64 at a time.
 *
 * Rejects with the error of undici, or with the reason of the signal.
 */
export function exchange(
  connections: Connections,
  url: string | URL,
  { headers, body, signal, closeConnection, method }: HttpRequest,
): Promise<HttpResponse> {
  const receiver = new Receiver(signal)
  if (signal.aborted) return receiver.answer
  try {
    const { origin, pathname, search } = typeof url === 'string' ? new URL(url) : url
    const request: Dispatcher.DispatchOptions = {
      origin,
      path: pathname + search,
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: headers as Record<string, string>,
      body: body ?? null,
      reset: closeConnection ?? false,
    }
    connections.dispatch(request, receiver)
  } catch (error) {
    receiver.onResponseError(undefined, error)
  }
  return receiver.answer
}

/** Turns the events of undici into an answer and its body, until the signal ends both. */
class Receiver implements Dispatcher.DispatchHandler {
  readonly #signal: AbortSignal
  readonly answer: Promise<HttpResponse>
  #resolve!: (answer: HttpResponse) => void
  #reject!: (reason: unknown) => void
  #connection: Dispatcher.DispatchController | undefined
  #body: ResponseBody | undefined

  constructor(signal: AbortSignal) {
    this.#signal = signal
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    if (signal.aborted) this.#onAbort()
    else signal.addEventListener('abort', this.#onAbort)
  }

  onRequestStart(connection: Dispatcher.DispatchController): void {
    this.#connection = connection
    // The signal may have aborted while the request waited for a connection.
    if (this.#signal.aborted) connection.abort(this.#signal.reason as Error)
  }

  onResponseStart(
    connection: Dispatcher.DispatchController,
    status: number,
    headers: HttpResponse['headers'],
  ): void {
    // Informational, sent before the answer.
    if (status < 200) return
    const body = new ResponseBody(connection)
    this.#body = body
    this.#resolve({
      status,
      headers,
      contentType: headerOf(headers, 'content-type'),
      body,
    })
  }

  onResponseData(_connection: Dispatcher.DispatchController, piece: Uint8Array): void {
    this.#body?.push(piece)
  }

  onResponseEnd(): void {
    this.#over(undefined)
  }

  onResponseError(_connection: Dispatcher.DispatchController | undefined, error: unknown): void {
    this.#over(error)
  }

  readonly #onAbort = (): void => {
    const reason: unknown = this.#signal.reason
    this.#over(reason)
    this.#connection?.abort(reason as Error)
  }

  #over(error: unknown): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    if (this.#body === undefined) this.#reject(error)
    else this.#body.end(error)
  }
}
