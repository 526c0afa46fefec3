import { carriesKey } from '@osmosis/core/http'
import type { z } from 'zod'

import { keepText } from './body-text.ts'

/** More than any result; twice as much would be more than a string can hold. */
const longestBody = 256 * 1024 * 1024

/** Why a request is not served: thrown by a route, answered by the server. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: 400 | 401 | 404 | 410 | 413 | 422 | 424
  readonly body: object

  constructor(status: Refusal['status'], body: object) {
    super(`HTTP ${status}`)
    this.status = status
    this.body = body
  }
}

/** Writes the body of a refusal in the form that the callers of a route read. */
export type RefusalBody = (status: number, code: string, message: string) => object

/** A fault of the body in the form that FastAPI peers read. */
export const bodyFault: RefusalBody = (_status, type, msg) => ({
  detail: [{ type, loc: ['body'], msg }],
})

/**
 * Reads a JSON body, whatever content type it claims.
 *
 * @throws Refusal 413 for more than 256 MiB, 422 for what is not UTF-8, `notJson` for what is not
 * JSON
 */
export async function readJson(
  request: Request,
  { notJson, refusal }: { notJson: 400 | 422; refusal: RefusalBody },
): Promise<unknown> {
  const bytes = await readBytes(request)
  if (bytes === undefined) {
    const message = `larger than ${longestBody} bytes`
    throw new Refusal(413, refusal(413, 'body_too_large', message))
  }
  const text = decode(bytes)
  if (text === undefined) throw new Refusal(422, refusal(422, 'utf8_invalid', 'not UTF-8'))
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) keepText(value, text)
    return value
  } catch {
    // What the parser says is not passed on: it quotes the body.
    throw new Refusal(notJson, refusal(notJson, 'json_invalid', 'not JSON'))
  }
}

/**
 * Reads a callback. Checks, in this order: key (401), size (413), UTF-8 (422), JSON (`notJson`),
 * schema (422).
 *
 * @throws Refusal
 */
export async function readCallback<Body>(
  request: Request,
  { key, schema, notJson }: { key: string; schema: z.ZodType<Body>; notJson: 400 | 422 },
): Promise<Body> {
  if (!carriesKey(request.headers.get('authorization'), key)) {
    throw new Refusal(401, { detail: 'Unauthorized' })
  }
  const parsed = schema.safeParse(await readJson(request, { notJson, refusal: bodyFault }))
  if (parsed.success) return parsed.data
  // Nobody corrects more mistakes than this at once, and a body has room for millions.
  const detail = parsed.error.issues.slice(0, 100).map(({ code, path, message }) => ({
    type: code,
    loc: ['body', ...path.map(String)],
    msg: message,
  }))
  throw new Refusal(422, { detail })
}

/** Undefined when there is too much of it. */
async function readBytes(request: Request): Promise<Uint8Array | undefined> {
  const announced = request.headers.get('content-length')
  if (announced !== null && request.headers.get('transfer-encoding') === null) {
    // The HTTP parser holds callers to the length they announce.
    return Number(announced) > longestBody ? undefined : new Uint8Array(await request.arrayBuffer())
  }
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength
    if (size > longestBody) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}
