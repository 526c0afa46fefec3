import { AsyncResource } from 'node:async_hooks'

import type { Client, Dispatcher } from 'undici'

/** Somebody who waits for an answer. */
export interface AnswerReceiver extends Dispatcher.DispatchHandler {
  /** Whether it waits no more: the answer has ended, or will not come. */
  readonly isOver: boolean
}

/** Options of {@link PlainConnections}. */
export interface PlainConnectionsOptions {
  /** Looks at an origin once, throwing where nobody may connect to it, and gives what makes its clients. */
  readonly clientOf: (origin: URL) => () => Client
  /** Connections to one origin at most; requests beyond them wait. Default: no limit. */
  readonly most?: number | undefined
}

/**
 * Connections without TLS, one for each request in progress, kept for later ones. Undici's pool does the same
 * by looking through all its connections twice for each request, which with a thousand of them in progress
 * costs more than to send it. With TLS one connection may serve many requests, so that is left to it.
 */
export class PlainConnections {
  readonly #options: PlainConnectionsOptions
  readonly #origins = new Map<string, OriginConnections>()

  constructor(options: PlainConnectionsOptions) {
    this.#options = options
  }

  /** @throws what `clientOf` throws */
  dispatch(request: Dispatcher.DispatchOptions, receiver: AnswerReceiver): void {
    const origin = String(request.origin)
    let connections = this.#origins.get(origin)
    if (connections === undefined) {
      const { clientOf, most } = this.#options
      const onEmpty = (): void => void this.#origins.delete(origin)
      connections = new OriginConnections(clientOf(new URL(origin)), most, onEmpty)
      this.#origins.set(origin, connections)
    }
    connections.dispatch(request, receiver)
  }

  /** Breaks off what is in progress. */
  async destroy(): Promise<void> {
    await Promise.all([...this.#origins.values()].map(async (origin) => origin.destroy()))
  }
}

interface Connection {
  readonly client: Client
  busy: boolean
  broken: boolean
}

interface Waiting {
  readonly receiver: AnswerReceiver
  /** In the async context of its request. */
  readonly send: (connection: Connection) => void
}

/** Those that lead to one place. */
class OriginConnections {
  readonly #makeClient: () => Client
  readonly #most: number
  readonly #onEmpty: () => void
  readonly #all = new Set<Connection>()
  /** The one used last is the next: what it needs is at hand, and those not needed any more get closed. */
  readonly #idle: Connection[] = []
  #waiting: Waiting[] = []

  constructor(makeClient: () => Client, most = Number.POSITIVE_INFINITY, onEmpty: () => void) {
    this.#makeClient = makeClient
    this.#most = most
    this.#onEmpty = onEmpty
  }

  dispatch(request: Dispatcher.DispatchOptions, receiver: AnswerReceiver): void {
    const connection = this.#idle.pop() ?? this.#add()
    if (connection !== undefined) {
      this.#send(connection, request, receiver)
      return
    }
    const send = AsyncResource.bind((free: Connection) => this.#send(free, request, receiver))
    this.#waiting.push({ receiver, send })
  }

  async destroy(): Promise<void> {
    const waiting = this.#waiting
    this.#waiting = []
    const reason = new Error('the connections were closed')
    for (const { receiver } of waiting) receiver.onResponseError?.(undefined as never, reason)
    await Promise.all([...this.#all].map(async ({ client }) => client.destroy(reason)))
  }

  #send(
    connection: Connection,
    request: Dispatcher.DispatchOptions,
    receiver: AnswerReceiver,
  ): void {
    connection.busy = true
    connection.client.dispatch(request, receiver)
    // Refused before it was taken, as for a header that cannot be sent: no event follows.
    if (receiver.isOver) this.#free(connection)
  }

  #add(): Connection | undefined {
    if (this.#all.size >= this.#most) return undefined
    const connection: Connection = { client: this.#makeClient(), busy: false, broken: false }
    connection.client
      .on('connect', () => (connection.broken = false))
      .on('connectionError', () => (connection.broken = true))
      .on('disconnect', () => {
        connection.broken = true
        if (!connection.busy) this.#drop(connection)
      })
      // It would take another request.
      .on('drain', () => {
        this.#free(connection)
        this.#sendWaiting()
      })
    this.#all.add(connection)
    return connection
  }

  #free(connection: Connection): void {
    if (!connection.busy) return
    connection.busy = false
    if (connection.broken) this.#drop(connection)
    else this.#idle.push(connection)
  }

  #sendWaiting(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const connection = next.receiver.isOver ? undefined : (this.#idle.pop() ?? this.#add())
      if (connection === undefined && !next.receiver.isOver) return
      this.#waiting.shift()
      if (connection !== undefined) next.send(connection)
    }
  }

  #drop(connection: Connection): void {
    const place = this.#idle.indexOf(connection)
    if (place !== -1) this.#idle.splice(place, 1)
    this.#all.delete(connection)
    connection.client.destroy().catch(() => {})
    if (this.#all.size === 0 && this.#waiting.length === 0) this.#onEmpty()
  }
}
