import { once } from 'node:events'
import { createServer, request, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A proxy between a caller and a server that loses the requests and answers that a test selects. */
export class LossyProxy implements AsyncDisposable {
  /** Base URL of the server. */
  target: string
  /** What is lost of a request: the request itself, or its answer. */
  fault: (incoming: IncomingMessage) => 'request' | 'answer' | undefined = () => undefined
  /** Called when a request was answered. */
  onAnswer: (incoming: IncomingMessage) => void = () => undefined
  readonly #server = createServer((incoming, outgoing) => {
    const fault = this.fault(incoming)
    if (fault === 'request') return void outgoing.destroy()
    const { method, headers } = incoming
    const passedOn = request(this.target + (incoming.url ?? ''), { method, headers }, (answer) => {
      if (fault === 'answer') return void outgoing.destroy()
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(outgoing)
      outgoing.once('finish', () => this.onAnswer(incoming))
    })
    passedOn.once('error', () => outgoing.destroy())
    outgoing.once('close', () => passedOn.destroy())
    incoming.pipe(passedOn)
  })

  constructor(target: string) {
    this.target = target
  }

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return this
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }
}
