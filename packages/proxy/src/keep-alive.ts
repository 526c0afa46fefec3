import type { ServerResponse } from 'node:http'

/** Clients and gateways end a connection on which nothing comes, some after 30 s. Milliseconds. */
const pingMs = 15_000

/** Passes the parts of an event stream on, and writes a ping when none has come for a while. */
export async function* withPings<Part extends string | Uint8Array>(
  parts: AsyncIterable<Part>,
  response: ServerResponse,
  ping: string,
): AsyncGenerator<Part> {
  let isBetweenEvents = true
  const timer = setInterval(() => {
    const isReading = response.writable && !response.writableNeedDrain
    if (isBetweenEvents && isReading) response.write(ping)
  }, pingMs)
  try {
    for await (const part of parts) {
      isBetweenEvents = endsEvent(part)
      timer.refresh()
      yield part
    }
  } finally {
    clearInterval(timer)
  }
}

function endsEvent(part: string | Uint8Array): boolean {
  const end = typeof part === 'string' ? part : Buffer.from(part.subarray(-2)).toString('latin1')
  return end === '' || end.endsWith('\n\n')
}
