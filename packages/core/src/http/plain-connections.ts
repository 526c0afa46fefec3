import { AsyncResource } from 'node:async_hooks'

import type { Client, Dispatcher } from 'undici'

/** Receives the answer to one request. */
export interface AnswerReceiver extends Dispatcher.DispatchHandler {
  /** Whether the answer has ended, or will not come. */
  readonly isOver: boolean
}

/** Options of {@link PlainConnections}. */
export interface PlainConnectionsOptions {
  /** Checks an origin once and returns the factory of its clients. Throws when connections to it are refused. */
  readonly clientOf: (origin: URL) => () => Client
  /** Most connections to one origin; further requests wait. Default: no limit. */
  readonly maxConnections?: number | undefined
}

/**
 * Connections without TLS, one per request in progress, reused for later ones. Undici's pool searches all its
 * connections twice per request, which costs more than sending it when there are a thousand. It is used for
 * TLS, where one connection may serve many requests.
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
      const { clientOf, maxConnections } = this.#options
      const onEmpty = (): void => void this.#origins.delete(origin)
      connections = new OriginConnections(clientOf(new URL(origin)), maxConnections, onEmpty)
      this.#origins.set(origin, connections)
    }
    connections.dispatch(request, receiver)
  }

  /** Aborts what is in progress. */
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

/** The connections to one origin. */
class OriginConnections {
  readonly #makeClient: () => Client
  readonly #maxConnections: number
  readonly #onEmpty: () => void
  readonly #all = new Set<Connection>()
  /** A stack: the connection used last is reused first, so that the others time out. */
  readonly #idle: Connection[] = []
  #waiting: Waiting[] = []

  constructor(
    makeClient: () => Client,
    maxConnections = Number.POSITIVE_INFINITY,
    onEmpty: () => void,
  ) {
    this.#makeClient = makeClient
    this.#maxConnections = maxConnections
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
    // Undici refused the request, for example a header that cannot be sent: no event follows.
    if (receiver.isOver) this.#free(connection)
  }

  #add(): Connection | undefined {
    if (this.#all.size >= this.#maxConnections) return undefined
    const connection: Connection = { client: this.#makeClient(), busy: false, broken: false }
    connection.client
      .on('connect', () => (connection.broken = false))
      .on('connectionError', () => (connection.broken = true))
      .on('disconnect', () => {
        connection.broken = true
        if (!connection.busy) this.#drop(connection)
      })
      // Ready for another request.
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
    const index = this.#idle.indexOf(connection)
    if (index !== -1) this.#idle.splice(index, 1)
    this.#all.delete(connection)
    connection.client.destroy().catch(() => {})
    if (this.#all.size === 0 && this.#waiting.length === 0) this.#onEmpty()
  }
}
