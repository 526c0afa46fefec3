import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { constants, createGzip } from 'node:zlib'

/** Transcripts may be confidential: no caching, framing or content sniffing. */
export const safeHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** Compressing pays from this size, also over a tunnel to another machine. Bytes. */
const compressFrom = 16 * 1024

export async function replyJson(response: ServerResponse, value: unknown): Promise<void> {
  const text = JSON.stringify(value)
  if (text.length >= compressFrom) {
    replyCompressed(response, await compress([text]))
    return
  }
  response.writeHead(200, { ...safeHeaders, 'content-type': 'application/json' }).end(text)
}

/** The value as gzipped JSON, without holding the JSON as one text. */
export async function compressJson(value: unknown): Promise<Buffer> {
  return compress(jsonPieces(value))
}

async function compress(pieces: readonly string[]): Promise<Buffer> {
  const compressor = createGzip({ level: constants.Z_BEST_SPEED })
  const body = buffer(compressor)
  for (const piece of pieces) {
    if (!compressor.write(piece)) await once(compressor, 'drain')
  }
  compressor.end()
  return body
}

/** Array elements per piece of JSON. */
const maxElements = 4096

function jsonPieces(value: unknown): string[] {
  if (Array.isArray(value)) {
    const pieces = ['[']
    for (let from = 0; from < value.length; from += maxElements) {
      const elements = JSON.stringify(value.slice(from, from + maxElements)).slice(1, -1)
      pieces.push(from === 0 ? elements : `,${elements}`)
    }
    return [...pieces, ']']
  }
  if (typeof value !== 'object' || value === null) return [JSON.stringify(value)]
  const fields = Object.entries(value).flatMap(([name, field], index) => [
    `${index === 0 ? '' : ','}${JSON.stringify(name)}:`,
    ...jsonPieces(field),
  ])
  return ['{', ...fields, '}']
}

/** Replies with compressed JSON. */
export function replyCompressed(response: ServerResponse, body: Buffer): void {
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
  response.writeHead(200, { ...safeHeaders, ...headers }).end(body)
}

export function replyText(response: ServerResponse, status: number, text: string): void {
  const headers = { ...safeHeaders, 'content-type': 'text/plain; charset=utf-8' }
  response.writeHead(status, headers).end(text)
}

/** The page has its own policy, which the header repeats and extends with `frame-ancestors`. */
export function replyPage(response: ServerResponse, page: string): void {
  const [, policy = ''] = /http-equiv="content-security-policy" content="([^"]*)"/.exec(page) ?? []
  const headers = {
    ...safeHeaders,
    'content-security-policy': `${policy}; frame-ancestors 'none'`,
    'content-type': 'text/html; charset=utf-8',
  }
  response.writeHead(200, headers).end(page)
}
