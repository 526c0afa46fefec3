import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request as it came over the wire. */
export interface PeerRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly raw: string
  readonly bytes: Buffer
  /** Parsed from `raw`; empty when nothing was sent, or protobuf. */
  readonly body: Record<string, unknown>
}

/**
 * The other side of a protocol on a port of its own: an HTTP server that reads whole JSON bodies,
 * hands them on, and lets a test wait until something has happened here.
 */
export abstract class HttpPeer implements AsyncDisposable {
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const bytes = Buffer.concat(chunks)
      const raw = bytes.toString()
      const { method = '', url: path = '', headers } = request
      const isEmpty = raw === '' || headers['content-type'] === 'application/x-protobuf'
      const body = (isEmpty ? {} : JSON.parse(raw)) as Record<string, unknown>
      this.received += 1
      this.receive({ method, path, headers, bytes, raw, body }, response)
    })
  })
  readonly #waiting = new Set<() => void>()
  /** Number of requests so far. */
  received = 0

  protected abstract receive(request: PeerRequest, response: ServerResponse): void

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return this
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Resolves when `test` holds, which is checked after every event of this peer. */
  async until(test: () => boolean): Promise<void> {
    while (!test()) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#waiting.add(resolve)
      await promise
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  /** Something has happened. */
  protected wake(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }
}

interface Attribute {
  readonly key: string
  readonly value: { readonly stringValue?: string; readonly intValue?: string }
}

interface LogsBody {
  readonly resourceLogs: readonly [
    {
      readonly resource: { readonly attributes: readonly Attribute[] }
      readonly scopeLogs: readonly [
        { readonly logRecords: readonly { readonly attributes: readonly Attribute[] }[] },
      ]
    },
  ]
}

/** A collector that receives which server has which rollouts. */
export class OwnershipCollector extends HttpPeer {
  readonly records: Record<string, string | undefined>[] = []
  readonly paths = new Set<string>()
  resource: unknown

  protected override receive({ path, body }: PeerRequest, response: ServerResponse): void {
    const [{ resource, scopeLogs }] = (body as unknown as LogsBody).resourceLogs
    this.paths.add(path)
    this.resource = resource
    for (const { attributes } of scopeLogs[0].logRecords) {
      const entries = attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue])
      this.records.push(Object.fromEntries(entries) as Record<string, string>)
    }
    response.writeHead(200).end('{}')
    this.wake()
  }
}
