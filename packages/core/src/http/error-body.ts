import { brotliDecompressSync, constants, gunzipSync, inflateSync } from 'node:zlib'

import { headerOf, type ResponseBody, type HttpResponse } from './response.ts'
import { startTimer } from './waiting.ts'

/** How much of an unexpected body is quoted. Characters. */
const maxReadableLength = 200
/** How much of an error message is quoted. Characters. */
const maxMessageLength = 500
/** How far a compressed body is unpacked. Bytes. */
const maxUnpackedBytes = 1024 * 1024
// Error bodies can have megabytes, or no end.
const maxErrorBytes = 64 * 1024
const maxErrorMs = 10_000

/** What the headers of an answer say about its body. */
export type AnswerContent = Pick<HttpResponse, 'contentType' | 'headers'>

/** Whether an answer cannot be a chat completion: a page, an image, or compressed. */
export function isForeign(answer: AnswerContent): boolean {
  return (
    encodingOf(answer) !== '' || /^(?:text\/html|[\w/.+-]*xml|image\/)/i.test(answer.contentType)
  )
}

/** The kind of a body, to be put after the status in a message: ` with text/html`; '' for JSON. */
export function contentText(answer: AnswerContent): string {
  const encoding = encodingOf(answer)
  const type = answer.contentType.replace(/;.*/s, '').trim()
  if (encoding === '') return type === '' || /json/i.test(type) ? '' : ` with ${type}`
  return ` with ${type || 'no content type'}, compressed with ${encoding}`
}

/** The text of a body, unpacked if it was compressed. */
export function bodyText(bytes: Uint8Array, answer: AnswerContent): string {
  return Buffer.from(unpacked(bytes, encodingOf(answer))).toString('utf8')
}

/** The first 200 characters that a reader would see; of a page, what a browser shows. */
export function readableText(text: string): string {
  const shown = /<(?:!doctype|html|head|body|\?xml)\b/i.test(text)
    ? text
        .replaceAll(/<(script|style)\b.*?(?:<\/\1>|$)/gis, ' ')
        .replaceAll(/<!--.*?-->|<[^>]*>/gs, ' ')
        .replaceAll('&nbsp;', ' ')
        .replaceAll('&amp;', '&')
    : text
  // Control characters, and bytes that are not UTF-8.
  return shown
    .replaceAll(/[\p{Cc}\uFFFD\s]+/gu, ' ')
    .trim()
    .slice(0, maxReadableLength)
}

function encodingOf({ headers }: AnswerContent): string {
  const encoding = headerOf(headers, 'content-encoding').toLowerCase()
  return encoding === 'identity' ? '' : encoding
}

/** The body may be incomplete: what has arrived is unpacked. */
function unpacked(bytes: Uint8Array, encoding: string): Uint8Array {
  const options = { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: maxUnpackedBytes }
  try {
    switch (encoding) {
      case 'gzip':
      case 'x-gzip':
        return gunzipSync(bytes, options)
      case 'deflate':
        return inflateSync(bytes, options)
      case 'br':
        return brotliDecompressSync(bytes, {
          finishFlush: constants.BROTLI_OPERATION_FLUSH,
          maxOutputLength: maxUnpackedBytes,
        })
      default:
        return bytes
    }
  } catch {
    return bytes
  }
}

/** What the body of an error answer says. */
export interface EndpointRefusal {
  readonly text: string
  /** The endpoint's own words for the error, for programs. */
  readonly code: string | undefined
  readonly type: string | undefined
}

/**
 * The message in the body of an error answer, without the key that the request carried; of a body that is
 * not JSON the first 200 readable characters. Reads at most 64 KiB for at most 10 s. Never rejects: an
 * answer that breaks off is quoted as far as it arrived.
 */
export async function readRefusal(
  answer: AnswerContent & { readonly body: ResponseBody },
  authorization: string | undefined,
): Promise<EndpointRefusal> {
  const { text, isWhole } = await beginning(answer.body, answer)
  const key = authorization?.replace(/^Bearer /, '') ?? ''
  const { message, code, type } = errorIn(text)
  const clean = withoutKey(message, key, isWhole)
  return {
    // Cut last, because a cut could leave a piece of the key.
    text: contentText(answer) === '' ? clean.slice(0, maxMessageLength) : readableText(clean),
    code: wordIn(code),
    type: wordIn(type),
  }
}

/** A sentence about an answer that is not the expected chat completion, without the key. */
export async function foreignText(
  answer: HttpResponse,
  authorization: string | undefined,
): Promise<string> {
  return noCompletion(answer, readableText((await readRefusal(answer, authorization)).text))
}

/** The same with its text; '' for none. */
export function noCompletion(answer: HttpResponse, text: string): string {
  const sentence = `answered ${answer.status}${contentText(answer)}, which is not a chat completion`
  return text === '' ? sentence : `${sentence}: ${text}`
}

/** Headers in which endpoints and providers expect a key. */
const keyHeaders = new Set(['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'])
/** A shorter key is a word such as `none`, which error messages need. Characters. */
const minKeyLength = 8

/**
 * The body of an answer, to be passed on in a `Response`. A success is streamed. The body of an error
 * answer is cut to 64 KiB and cleared of the keys of the request, because some endpoints repeat them.
 *
 * @param sent - the headers of the request
 */
export async function bodyWithoutKeys(
  answer: HttpResponse,
  sent: Readonly<Record<string, string>>,
): Promise<ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer>> {
  const { status, body } = answer
  if (status >= 200 && status <= 299) return webBody(body)
  const { text, isWhole } = await beginning(body, answer)
  const clean = Object.entries(sent)
    .filter(([name]) => keyHeaders.has(name.toLowerCase()))
    .map(([, value]) => value.replace(/^Bearer /, ''))
    .filter((key) => key.length >= minKeyLength)
    .reduce((rest, key) => withoutKey(withPlainKey(rest, key), key, isWhole), text)
  return new TextEncoder().encode(clean)
}

/** JSON can escape the letters of a key: rewrites such a text so that it has the key in plain letters. */
function withPlainKey(text: string, key: string): string {
  let plain: string
  try {
    plain = JSON.stringify(JSON.parse(text))
  } catch {
    plain = unescaped(text)
  }
  return plain.includes(key) ? plain : text
}

async function beginning(
  body: ResponseBody,
  content: AnswerContent,
): Promise<{ text: string; isWhole: boolean }> {
  const parts: Uint8Array[] = []
  let bytes = 0
  let isWhole = false
  const timer = startTimer(maxErrorMs, () => body.destroy())
  try {
    for await (const part of body) {
      parts.push(part)
      bytes += part.length
      if (bytes > maxErrorBytes) break
    }
    isWhole = bytes <= maxErrorBytes
  } catch {
    // It broke off, or took too long.
  } finally {
    timer.clear()
    body.destroy()
  }
  return { text: bodyText(Buffer.concat(parts).subarray(0, maxErrorBytes), content), isWhole }
}

/** The message, code and type, in the shapes that OpenAI, FastAPI and proxies use. */
export function errorIn(body: string): { message: string; code?: unknown; type?: unknown } {
  try {
    const json = JSON.parse(body) as Record<string, unknown> | null
    const { error, detail, message: text } = json ?? {}
    const nested = error as { message?: unknown; code?: unknown; type?: unknown } | null | undefined
    const message = nested?.message ?? error ?? detail ?? text ?? json
    const { code, type } = (typeof nested === 'object' ? nested : json) ?? {}
    return {
      message: (typeof message === 'string' ? message : JSON.stringify(message)).trim(),
      code,
      type,
    }
  } catch {
    // Not JSON, or JSON that was cut.
    return { message: unescaped(body).trim() }
  }
}

/** A code or type of an error; undefined for anything else. */
export function wordIn(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\w.-]{1,64}$/.test(value) ? value : undefined
}

function unescaped(text: string): string {
  return text.replace(/\\(?:u([0-9a-f]{4})|(["\\/]))/gi, (_all, code?: string, char = '') =>
    code === undefined ? String(char) : String.fromCodePoint(Number.parseInt(code, 16)),
  )
}

/** Removes the key, and the beginning of it at the end of a text that was cut. */
function withoutKey(text: string, key: string, isWhole: boolean): string {
  if (key === '') return text
  const redacted = text.replaceAll(key, '[redacted]')
  if (isWhole) return redacted
  let length = key.length - 1
  while (length > 0 && !redacted.endsWith(key.slice(0, length))) length -= 1
  return redacted.slice(0, redacted.length - length)
}

/**
 * The body of an answer for a `Response`. Unlike the stream of `Readable.toWeb` it may be cancelled at any
 * moment; that one throws an uncaught error when a piece arrives after it was cancelled.
 */
export function webBody(
  body: AsyncIterable<Uint8Array> & { destroy(): unknown },
): ReadableStream<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]()
  let over = false
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = await pieces.next()
        if (over) return
        if (next.done === true) controller.close()
        else controller.enqueue(next.value)
      } catch (error) {
        if (!over) throw error
      }
    },
    cancel() {
      over = true
      body.destroy()
    },
  })
}
