import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

type Bytes = AsyncIterable<Uint8Array>

/**
 * Writes a policy's answer to the caller as it arrives, byte for byte, through `observe`. When the
 * answer breaks off, so does the caller's connection: half an answer must not look like a whole one.
 */
export async function sendAnswer(
  answer: Response,
  observe: (chunks: Bytes) => Bytes,
  outgoing: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  outgoing.writeHead(answer.status, passedOnHeaders(answer.headers))
  // The status may be known long before the first token is.
  outgoing.flushHeaders()
  try {
    const bytes = answer.body === null ? Readable.from([]) : Readable.fromWeb(answer.body)
    await pipeline(bytes, observe, outgoing, { signal })
  } catch {
    // The pipeline has closed both ends, so policy and caller know. The connection is gone, and
    // nobody is left to answer.
  }
}

// The rest describes the policy's own connection, or an encoding that `fetch` has already undone.
function passedOnHeaders(headers: Headers): Record<string, string> {
  const kept = ['content-type', 'retry-after']
  return Object.fromEntries([...headers].filter(([name]) => kept.includes(name)))
}
