import type { EgressPolicy } from '@osmosis/core/http'
import { parsePlainJson } from '@osmosis/protocol/wire'
import type { z } from 'zod'

import { endOfText, openBrace, openBracket, quote } from '../journal/json-bytes.ts'
import { HttpRefusal, type BodyProblem, type ExpectedBody } from './server-route.ts'

const maxProblems = 100
/**
 * Values and keys of a body. Each costs much more memory and time than its bytes: tens of millions
 * fit into a body of ordinary size, and not into the process.
 */
const maxValues = 1_000_000

/** 1 for the bytes of numbers, `true`, `false` and `null`. */
const wordBytes = new Uint8Array(256)
for (const letter of '+-.0123456789aeflnrstuE') wordBytes[letter.charCodeAt(0)] = 1

/** A JSON body, as text and parsed. */
export interface JsonBody {
  readonly text: string
  readonly value: unknown
}

/**
 * Reads a JSON body, whatever content type the request declares.
 *
 * @param limit - bytes
 * @throws HttpRefusal 413 when it is larger than `limit` or has more than a million values
 * and keys, 422 when it is not UTF-8 or not JSON
 */
export async function readJsonBody(request: Request, limit: number): Promise<JsonBody> {
  const bytes = await readBytes(request, limit)
  if (bytes.byteLength > maxValues && hasTooManyValues(new Uint8Array(bytes))) {
    throw new HttpRefusal(413, `request body has more than ${maxValues} values and keys`)
  }
  let text: string
  try {
    // Replacing invalid bytes would change the content.
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw unreadable('body is not UTF-8')
  }
  try {
    return { text, value: JSON.parse(text) as unknown }
  } catch {
    // The parser's message is not passed on: it quotes the body.
    throw unreadable('JSON decode error')
  }
}

/**
 * A checked body whose fields of user data have texts where a number would lose digits, as rows of datasets have. Other
 * fields are settings, which need numbers.
 *
 * @param text - the body as it was written
 * @throws HttpRefusal 422 when it is nested too deeply
 */
export function withExactData<Body extends object>(
  body: Body,
  text: string,
  fields: readonly (keyof Body & string)[],
): Body {
  let plain: Partial<Body>
  try {
    plain = parsePlainJson(text) as Partial<Body>
  } catch {
    throw new HttpRefusal(422, [
      { type: 'value_error', loc: ['body'], msg: 'is nested too deeply' },
    ])
  }
  const exact = fields.flatMap((field) =>
    Object.hasOwn(plain, field) ? [[field, plain[field]] as const] : [],
  )
  return { ...body, ...(Object.fromEntries(exact) as Partial<Body>) }
}

/**
 * Checks a parsed body.
 *
 * @throws HttpRefusal 422 that names every problem and repeats nothing of the body
 */
export function checkBody<Body>(expected: ExpectedBody<Body>, value: unknown): Body {
  const { lists = {}, schemaFor } = expected
  const schema = schemaFor?.(value) ?? expected.schema
  const result = schema.safeParse(cutAfterFirstMisfit(value, lists))
  if (result.success) return result.data
  const issues = result.error.issues.slice(0, maxProblems)
  throw new HttpRefusal(
    422,
    issues.map((issue) => toProblem(issue, value)),
  )
}

function readBytes(request: Request, limit: number): Promise<ArrayBuffer | Uint8Array> {
  const announced = request.headers.get('content-length')
  // The HTTP parser enforces a declared length, so the header alone decides and the body can be read
  // at once; reading the stream of every request triples the cost of a small one.
  if (announced !== null && request.headers.get('transfer-encoding') === null) {
    if (Number(announced) > limit) throw tooLarge(limit)
    return request.arrayBuffer().catch(brokenOff)
  }
  return readChunks(request, limit).catch(brokenOff)
}

async function readChunks(request: Request, limit: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let size = 0
  const chunks: AsyncIterable<Uint8Array> | null = request.body
  for await (const chunk of chunks ?? []) {
    size += chunk.byteLength
    if (size > limit) throw tooLarge(limit)
    parts.push(chunk)
  }
  return Buffer.concat(parts)
}

function tooLarge(limit: number): HttpRefusal {
  return new HttpRefusal(413, `request body is larger than ${limit} bytes`)
}

function hasTooManyValues(json: Uint8Array): boolean {
  let values = 0
  let isInWord = false
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at] ?? 0
    const isOfWord = wordBytes[byte] === 1
    const begins = isOfWord
      ? !isInWord
      : byte === quote || byte === openBracket || byte === openBrace
    isInWord = isOfWord
    if (begins) values += 1
    if (values > maxValues) return true
    if (byte === quote) at = endOfText(json, at)
  }
  return false
}

// The client disconnected, so the answer will not be read.
function brokenOff(error: unknown): never {
  if (error instanceof HttpRefusal) throw error
  throw unreadable('body broke off')
}

function unreadable(msg: string): HttpRefusal {
  return new HttpRefusal(422, [{ type: 'json_invalid', loc: ['body'], msg }])
}

function toProblem({ code, path, message }: z.core.$ZodIssue, body: unknown): BodyProblem {
  const loc = path.map((step) => (typeof step === 'symbol' ? String(step) : step))
  if (code === 'invalid_type' && isMissing(body, loc)) {
    return { type: 'missing', loc: ['body', ...loc], msg: 'Field required' }
  }
  const type = code === 'invalid_type' ? 'type_error' : 'value_error'
  return { type, loc: ['body', ...loc], msg: message }
}

function isMissing(body: unknown, loc: readonly (string | number)[]): boolean {
  let value = body
  for (const step of loc) value = (value as Record<string | number, unknown> | undefined)?.[step]
  return value === undefined
}

function cutAfterFirstMisfit(
  value: unknown,
  lists: Readonly<Record<string, (element: unknown) => boolean>>,
): unknown {
  if (typeof value !== 'object' || value === null) return value
  let cut = value as Record<string, unknown>
  for (const [key, fits] of Object.entries(lists)) {
    const list: unknown = cut[key]
    const misfit = Array.isArray(list) ? list.findIndex((element) => !fits(element)) : -1
    if (misfit >= 0) cut = { ...cut, [key]: (list as unknown[]).slice(0, misfit + 1) }
  }
  return cut
}

/**
 * A schema for a URL that the server will connect to. A URL that is certain to be refused fails with the
 * request, not later when a caller waits for a result.
 */
export function reachableUrl<Schema extends z.ZodType<string | null | undefined>>(
  schema: Schema,
  egress: EgressPolicy,
): Schema {
  const refusal = (url: unknown): string | undefined =>
    typeof url === 'string' ? egress.refusal(url) : undefined
  return schema.refine((url) => refusal(url) === undefined, {
    error: ({ input }) => `this server does not connect there: ${refusal(input)}`,
  })
}
