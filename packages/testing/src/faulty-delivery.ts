import type { ServerResponse } from 'node:http'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'

import type { Faults } from './policy-reply.ts'

/** The answer without faults. */
export interface IntendedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** One request in progress. */
export interface OpenRequest {
  readonly outgoing: ServerResponse
  /** Aborts when the connection is closed. */
  readonly signal: AbortSignal
  /** Destroys the socket from the side of the server. */
  readonly cut: () => void
}

/**
 * Writes an answer with the transport faults it is to have. Resolves when the server has done its
 * part; a hanging answer resolves when `signal` aborts. Once `signal` has aborted nothing is
 * written any more.
 */
export async function deliver(
  delivery: IntendedAnswer,
  faults: Faults,
  exchange: OpenRequest,
): Promise<void> {
  const { outgoing, signal, cut } = exchange
  if (faults.cutBeforeHeaders) return cut()
  if (faults.hang === 'headers') return aborted(signal)
  await pause(faults.delayMs, signal)
  if (signal.aborted) return undefined
  outgoing.writeHead(delivery.status, delivery.headers)
  outgoing.flushHeaders()
  await pause(faults.delayFirstByteMs, signal)

  const bytes = Buffer.from(delivery.body)
  if (faults.hang === 'body') {
    await write(firstEvent(bytes), faults, exchange)
    return aborted(signal)
  }
  const end = faults.cutAfterBytes ?? faults.endAfterBytes ?? bytes.length
  await write(bytes.subarray(0, end), faults, exchange)
  if (signal.aborted) return undefined
  if (faults.cutAfterBytes !== undefined) return cut()
  outgoing.end()
  return undefined
}

async function write(
  bytes: Buffer,
  { chunkBytes = Infinity }: Faults,
  { outgoing, signal }: OpenRequest,
): Promise<void> {
  const gone = aborted(signal)
  for (let at = 0; at < bytes.length && !signal.aborted; at += chunkBytes) {
    const flushed = Promise.withResolvers<void>()
    outgoing.write(bytes.subarray(at, at + chunkBytes), () => flushed.resolve())
    // Node drops a write to a socket that is just closing without calling back.
    await Promise.race([flushed.promise, gone])
    // Gives the client a turn, so that the writes reach it one by one.
    if (chunkBytes < bytes.length) await setImmediate()
  }
}

function firstEvent(bytes: Buffer): Buffer {
  const end = /\r?\n\r?\n/.exec(bytes.toString('latin1'))
  return end === null ? bytes.subarray(0, 1) : bytes.subarray(0, end.index + end[0].length)
}

async function pause(ms: number | undefined, signal: AbortSignal): Promise<void> {
  if (ms === undefined) return
  try {
    await sleep(ms, undefined, { signal })
  } catch {
    // The client or the server has closed; the caller looks at the signal.
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  signal.addEventListener('abort', () => resolve(), { once: true })
  await promise
}
