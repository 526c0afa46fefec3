import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/**
 * An address that leads to another server from time to time, as that of a load balancer does. Connections stay where they are
 * when it changes.
 */
export class TcpProxy implements AsyncDisposable {
  /** The port of the server that the next connection reaches. */
  target: number
  /** Whether all connections end instead of passing this on. */
  cutsAt: (sent: Buffer) => boolean = () => false
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((incoming) => {
    const outgoing = connect(this.target, '127.0.0.1')
    // Before the data is piped.
    incoming.on('data', (sent) => {
      if (this.cutsAt(sent)) this.cut()
    })
    for (const [one, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      this.#sockets.add(one)
      one.setNoDelay(true)
      one.pipe(other)
      one.once('error', () => other.destroy())
      one.once('close', () => {
        this.#sockets.delete(one)
        other.destroy()
      })
    }
  })

  constructor(target: number) {
    this.target = target
  }

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return this
  }

  /** Passes nothing on from now on, and ends no connection. */
  freeze(): void {
    for (const socket of this.#sockets) socket.unpipe().pause()
  }

  /** Ends all connections; what they have not passed on is lost. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.cut()
    await closed
  }
}
