import { carriesKey } from '@osmosis/core/http'
import type { z } from 'zod'

/** More than any result; a string cannot hold twice as much. Bytes. */
const maxBodyBytes = 256 * 1024 * 1024

/** Why a request is refused: thrown by a route, sent by the server. */
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

/** Builds the body of a refusal, in the form that the callers of a route expect. */
export type RefusalBody = (status: number, code: string, message: string) => object

/** An error of the body in FastAPI's form. */
export const bodyFault: RefusalBody = (_status, type, msg) => ({
  detail: [{ type, loc: ['body'], msg }],
})

/**
 * Reads a JSON body of any content type.
 *
 * @throws Refusal 413 for more than 256 MiB, 422 for a body that is not UTF-8, `notJson` for one that is not
 * JSON
 */
export async function readJson(
  request: Request,
  { notJson, refusal }: { notJson: 400 | 422; refusal: RefusalBody },
): Promise<unknown> {
  const bytes = await readBytes(request)
  if (bytes === undefined) {
    const message = `larger than ${maxBodyBytes} bytes`
    throw new Refusal(413, refusal(413, 'body_too_large', message))
  }
  const text = decode(bytes)
  if (text === undefined) throw new Refusal(422, refusal(422, 'utf8_invalid', 'not UTF-8'))
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) texts.set(value, text)
    return value
  } catch {
    // The parser's message quotes the body, so it is not forwarded.
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
  // Limited, because a large body can have millions of errors.
  const detail = parsed.error.issues.slice(0, 100).map(({ code, path, message }) => ({
    type: code,
    loc: ['body', ...path.map(String)],
    msg: message,
  }))
  throw new Refusal(422, { detail })
}

/** Undefined for a body that is too large. */
async function readBytes(request: Request): Promise<Uint8Array | undefined> {
  const announced = request.headers.get('content-length')
  if (announced !== null && request.headers.get('transfer-encoding') === null) {
    // The HTTP parser enforces the announced length.
    return Number(announced) > maxBodyBytes
      ? undefined
      : new Uint8Array(await request.arrayBuffer())
  }
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength
    if (size > maxBodyBytes) return undefined
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

// JavaScript changes numbers of JSON: `1.0` becomes `1`, and large integers lose digits. A body is therefore
// forwarded as the text that it was parsed from.
const texts = new WeakMap<object, string>()

/**
 * The JSON text of a request body with another `model`. The rest of the text of a body from {@link readJson} is
 * unchanged.
 */
export function textWithModel(body: Readonly<Record<string, unknown>>, model: string): string {
  const text = texts.get(body)
  const places = text === undefined ? [] : modelPlaces(text)
  if (text === undefined || places.length === 0) return JSON.stringify({ ...body, model })
  let replaced = ''
  let from = 0
  for (const [start, end] of places) {
    replaced += text.slice(from, start) + JSON.stringify(model)
    from = end
  }
  return replaced + text.slice(from)
}

/** The positions of the values of `model` in the outermost object; the text must be JSON. */
function modelPlaces(text: string): [start: number, end: number][] {
  const places: [number, number][] = []
  const structure = /["{}[\],:]/g
  let depth = 0
  let start: number | undefined
  let latest = ''
  for (let found = structure.exec(text); found !== null; found = structure.exec(text)) {
    const { 0: sign, index } = found
    if (sign === '"') {
      structure.lastIndex = endOfString(text, index)
      if (depth === 1 && start === undefined) latest = text.slice(index, structure.lastIndex)
      continue
    }
    if (depth === 1 && start !== undefined && (sign === ',' || sign === '}')) {
      places.push([start, index])
      start = undefined
    }
    // A key may be written with escapes.
    if (depth === 1 && sign === ':' && JSON.parse(latest) === 'model') start = index + 1
    if (sign === '{' || sign === '[') depth += 1
    if (sign === '}' || sign === ']') depth -= 1
  }
  return places
}

/** The index after the string that starts at `start`. Strings are too long for a regular expression. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1)
  for (;;) {
    let backslashes = 0
    while (text[end - 1 - backslashes] === '\\') backslashes += 1
    if (backslashes % 2 === 0) return end + 1
    end = text.indexOf('"', end + 1)
  }
}
