import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

import type { Logger } from '../logging/logger.ts'

/** Connections beyond the limit that may ask how the server is. */
const probePlaces = 16
/** How long such a connection stays open: time for one short answer, and none to hold a place. */
const probeMs = 2_000
/** How often a refused connection is logged. */
const warnEveryMs = 60_000

/**
 * The connections of a server, up to a limit. When it is reached, health checks are still answered: a server that is
 * only busy must not look dead, because that is when its machine would be restarted. Other requests get 503.
 */
export class ConnectionPlaces {
  readonly #limit: number
  readonly #logger: Logger
  readonly #beyond = new WeakSet<Socket>()
  #open = 0
  #warnedAt = Number.NEGATIVE_INFINITY

  constructor(limit: number, logger: Logger) {
    this.#limit = limit
    this.#logger = logger
  }

  /** Counts the connections of a server that does not listen yet. */
  watch(http: Server): void {
    http.maxConnections = this.#limit + probePlaces
    http.on('connection', (socket) => this.#add(socket))
    http.on('drop', () => this.#warn())
  }

  /** Whether a request is refused, because its connection is one too many and it is no health check. */
  refuses({ socket, url = '' }: IncomingMessage, response: ServerResponse): boolean {
    if (!this.#beyond.has(socket)) return false
    response.shouldKeepAlive = false
    if (/^\/health(?:$|\?)/.test(url)) return false
    this.#warn()
    response
      .writeHead(503, { 'content-type': 'application/json', 'retry-after': '1' })
      .end(JSON.stringify({ detail: 'Too many connections are open' }))
    return true
  }

  #add(socket: Socket): void {
    this.#open += 1
    const isBeyond = this.#open > this.#limit
    const giveUp = (): void => {
      this.#warn()
      socket.destroy()
    }
    const timer = isBeyond ? setTimeout(giveUp, probeMs).unref() : undefined
    if (isBeyond) this.#beyond.add(socket)
    socket.once('close', () => {
      this.#open -= 1
      clearTimeout(timer)
    })
  }

  #warn(): void {
    if (performance.now() - this.#warnedAt < warnEveryMs) return
    this.#warnedAt = performance.now()
    const fields = { max_connections: this.#limit }
    this.#logger.warn(fields, 'connections refused: too many are open')
  }
}
