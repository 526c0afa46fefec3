import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

/** A request and its answer, as they passed. */
export interface RecordedExchange {
  readonly request: string
  readonly status: number
  readonly contentType: string
  /** As much as has arrived. */
  readonly body: string
}

type Body = Readonly<Record<string, unknown>>

/** A proxy in front of a server that records what passes. */
export class RecordingProxy implements AsyncDisposable {
  /** Exchanges in the order in which their answers began. */
  readonly exchanges: RecordedExchange[] = []
  readonly #server = createServer((incoming, outgoing) => {
    this.#exchange(incoming, outgoing).catch(() => outgoing.destroy())
  })
  readonly #target: string
  readonly #change: (body: Body) => Body

  /**
   * @param target - URL of the server; its path is left to the requests
   * @param change - what it changes of a request, as gateways do. Default: nothing
   */
  constructor(target: string, change: (body: Body) => Body = (body) => body) {
    this.#target = target
    this.#change = change
  }

  async #exchange(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const sent = JSON.stringify(this.#change((await json(incoming)) as Body))
    const { method, headers, url = '' } = incoming
    const { origin } = new URL(this.#target)
    const length = { 'content-length': Buffer.byteLength(sent) }
    const passedOn = request(origin + url, { method, headers: { ...headers, ...length } })
    outgoing.once('close', () => passedOn.destroy())
    passedOn.end(sent)
    const [answer] = (await once(passedOn, 'response')) as [IncomingMessage]
    const { statusCode: status = 0 } = answer
    outgoing.writeHead(status, answer.headers)
    const parts: Buffer[] = []
    // A caller may leave behind the last event, and before the end.
    this.exchanges.push({
      request: sent,
      status,
      contentType: answer.headers['content-type'] ?? '',
      get body() {
        return Buffer.concat(parts).toString()
      },
    })
    for await (const part of answer as AsyncIterable<Buffer>) {
      parts.push(part)
      outgoing.write(part)
    }
    outgoing.end()
  }

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return this
  }

  /** Base URL, without `/chat/completions`. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }
}
