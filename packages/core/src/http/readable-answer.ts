import { brotliDecompressSync, constants, gunzipSync, inflateSync } from 'node:zlib'

import { headerOf, type AnswerHeaders } from './retry-after.ts'

/** Of an answer that is none. Characters. */
const longestReadable = 200
/** Of what a compressed answer becomes. Bytes. */
const longestUnpacked = 1024 * 1024

/** What an answer says of its body. */
export interface AnswerContent {
  /** '' when it does not say. */
  readonly contentType: string
  readonly headers: AnswerHeaders
}

/** Whether the body of an answer is no chat completion, whatever is in it: a page, or compressed. */
export function isForeign(answer: AnswerContent): boolean {
  return (
    encodingOf(answer) !== '' || /^(?:text\/html|[\w/.+-]*xml|image\/)/i.test(answer.contentType)
  )
}

/** What the body of an answer is, as it stands behind its status: ` with text/html`; '' for JSON. */
export function contentText(answer: AnswerContent): string {
  const encoding = encodingOf(answer)
  const type = answer.contentType.replace(/;.*/s, '').trim()
  if (encoding === '') return type === '' || /json/i.test(type) ? '' : ` with ${type}`
  return ` with ${type || 'no content type'}, compressed with ${encoding}`
}

/** The beginning of a body as text, unpacked if it was compressed. */
export function bodyText(bytes: Uint8Array, answer: AnswerContent): string {
  return Buffer.from(unpacked(bytes, encodingOf(answer))).toString('utf8')
}

/** The first 200 characters that a reader would see: of a page what a browser shows of it. */
export function readableText(text: string): string {
  const shown = /<(?:!doctype|html|head|body|\?xml)\b/i.test(text)
    ? text
        .replaceAll(/<(script|style)\b.*?(?:<\/\1>|$)/gis, ' ')
        .replaceAll(/<!--.*?-->|<[^>]*>/gs, ' ')
        .replaceAll('&nbsp;', ' ')
        .replaceAll('&amp;', '&')
    : text
  // Control characters, and what is no UTF-8.
  return shown
    .replaceAll(/[\p{Cc}\uFFFD\s]+/gu, ' ')
    .trim()
    .slice(0, longestReadable)
}

function encodingOf({ headers }: AnswerContent): string {
  const encoding = headerOf(headers, 'content-encoding').toLowerCase()
  return encoding === 'identity' ? '' : encoding
}

/** As far as it goes: the rest of it may not have come. */
function unpacked(bytes: Uint8Array, encoding: string): Uint8Array {
  const options = { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: longestUnpacked }
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
          maxOutputLength: longestUnpacked,
        })
      default:
        return bytes
    }
  } catch {
    return bytes
  }
}
