import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import * as zlib from 'node:zlib'

import { RefusedField } from './dialect.ts'

type Unpack = (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>

const inflate = promisify<Uint8Array, zlib.ZlibOptions, Buffer>(zlib.inflate)
const inflateRaw = promisify<Uint8Array, zlib.ZlibOptions, Buffer>(zlib.inflateRaw)
const gunzip: Unpack = promisify<Uint8Array, zlib.ZlibOptions, Buffer>(zlib.gunzip)

const unpackers: Readonly<Record<string, Unpack>> = {
  gzip: gunzip,
  'x-gzip': gunzip,
  // Some clients leave out the header of zlib, whose first byte ends with 8.
  deflate: (bytes, options) =>
    ((bytes[0] ?? 0) & 0x0f) === 8 ? inflate(bytes, options) : inflateRaw(bytes, options),
  br: promisify<Uint8Array, zlib.BrotliOptions, Buffer>(zlib.brotliDecompress),
  zstd: promisify<Uint8Array, zlib.ZstdOptions, Buffer>(zlib.zstdDecompress),
}

/**
 * The text of a request's body, unpacked.
 *
 * @param maxBytes - its largest size, as it arrives and after each step of unpacking it
 * @throws RefusedField for a body that is too large (413), packed in an unknown way (415), damaged or not UTF-8
 */
export async function bodyText(request: IncomingMessage, maxBytes: number): Promise<string> {
  let bytes = await bodyBytes(request, maxBytes)
  // The last coding was applied last.
  for (const coding of codingsOf(request).toReversed()) {
    bytes = await unpacked(bytes, coding, maxBytes)
  }
  try {
    // Replacing invalid bytes would change what the agent said.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new RefusedField('body', 'expected UTF-8, got other bytes.')
  }
}

async function bodyBytes(request: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  if (Number(request.headers['content-length']) > maxBytes) throw tooLarge(maxBytes)
  const parts: Uint8Array[] = []
  let size = 0
  // The connection has to stay open for the answer.
  for await (const part of request.iterator({ destroyOnReturn: false })) {
    parts.push(part as Uint8Array)
    size += (part as Uint8Array).length
    if (size > maxBytes) break
  }
  if (size <= maxBytes) return Buffer.concat(parts)
  // Some clients read no answer before they have sent everything.
  request.resume()
  throw tooLarge(maxBytes)
}

function codingsOf({ headers }: IncomingMessage): string[] {
  const named = headers['content-encoding']?.toLowerCase().split(',') ?? []
  return named.map((coding) => coding.trim()).filter((name) => name !== '' && name !== 'identity')
}

async function unpacked(bytes: Uint8Array, coding: string, maxBytes: number): Promise<Uint8Array> {
  const unpack = Object.hasOwn(unpackers, coding) ? unpackers[coding] : undefined
  if (unpack === undefined) {
    const message = `expected ${Object.keys(unpackers).join(', ')} or none, got ${JSON.stringify(coding)}.`
    throw new RefusedField('content-encoding', message, 'invalid_request', 415)
  }
  try {
    return await unpack(bytes, { maxOutputLength: maxBytes })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(maxBytes)
    throw new RefusedField('body', `expected data packed with ${coding}, got other bytes.`)
  }
}

function tooLarge(maxBytes: number): RefusedField {
  const message = `expected at most ${maxBytes} bytes, also when unpacked, got more.`
  return new RefusedField('body', message, 'invalid_request', 413)
}
