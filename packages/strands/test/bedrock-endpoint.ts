import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { crc32 } from 'node:zlib'

/** One event of Bedrock's ConverseStream, by its name. */
export type BedrockEvent = readonly [name: string, payload: object]

/** An endpoint of Bedrock under the control of a test. */
export interface BedrockEndpoint extends AsyncDisposable {
  readonly url: string
  /** The bodies of all requests. */
  readonly requests: Record<string, unknown>[]
}

/** Starts an endpoint that answers by script, over HTTP/2 as the AWS client speaks it. */
export async function startBedrockEndpoint(
  answers: readonly (readonly BedrockEvent[])[],
): Promise<BedrockEndpoint> {
  const requests: Record<string, unknown>[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const events = answers[requests.length] ?? []
      requests.push(JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>)
      response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' })
      response.end(Buffer.concat(events.map(encoded)))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    [Symbol.asyncDispose]: async () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
      }),
  }
}

/** A message in the binary form of AWS event streams. */
function encoded([name, payload]: BedrockEvent): Buffer {
  const headers = Buffer.concat([
    header(':message-type', 'event'),
    header(':event-type', name),
    header(':content-type', 'application/json'),
  ])
  const body = Buffer.from(JSON.stringify(payload))
  const prelude = Buffer.alloc(8)
  prelude.writeUInt32BE(16 + headers.length + body.length, 0)
  prelude.writeUInt32BE(headers.length, 4)
  const message = Buffer.concat([prelude, checksum(prelude), headers, body])
  return Buffer.concat([message, checksum(message)])
}

function header(name: string, value: string): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(value.length)
  const typeOfText = 7
  return Buffer.concat([
    Buffer.from([name.length]),
    Buffer.from(name),
    Buffer.from([typeOfText]),
    length,
    Buffer.from(value),
  ])
}

function checksum(bytes: Buffer): Buffer {
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc32(bytes))
  return sum
}
