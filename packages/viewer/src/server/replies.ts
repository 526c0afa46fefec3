import type { ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { constants, gzip } from 'node:zlib'

const compress = promisify(gzip)

/** Transcripts may be confidential: nothing is kept, framed or guessed. */
export const safeHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** From here on compressing pays, also over a tunnel to another machine. Bytes. */
const compressFrom = 16 * 1024

export async function replyJson(response: ServerResponse, value: unknown): Promise<void> {
  const text = JSON.stringify(value)
  if (text.length >= compressFrom) {
    replyCompressed(response, await compressJson(text))
    return
  }
  response.writeHead(200, { ...safeHeaders, 'content-type': 'application/json' }).end(text)
}

export async function compressJson(text: string): Promise<Buffer> {
  return compress(text, { level: constants.Z_BEST_SPEED })
}

/** Answers with JSON that was compressed before. */
export function replyCompressed(response: ServerResponse, body: Buffer): void {
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
  response.writeHead(200, { ...safeHeaders, ...headers }).end(body)
}

export function replyText(response: ServerResponse, status: number, text: string): void {
  const headers = { ...safeHeaders, 'content-type': 'text/plain; charset=utf-8' }
  response.writeHead(status, headers).end(text)
}

/** The page brings its own policy, which the header repeats and frames cannot loosen. */
export function replyPage(response: ServerResponse, page: string): void {
  const [, policy = ''] = /http-equiv="content-security-policy" content="([^"]*)"/.exec(page) ?? []
  const headers = {
    ...safeHeaders,
    'content-security-policy': `${policy}; frame-ancestors 'none'`,
    'content-type': 'text/html; charset=utf-8',
  }
  response.writeHead(200, headers).end(page)
}
