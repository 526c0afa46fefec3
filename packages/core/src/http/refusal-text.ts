import type { AnswerBody } from './answer-body.ts'
import type { HttpAnswer } from './exchange.ts'
import { startTimer } from './long-timer.ts'
import { bodyText, contentText, readableText, type AnswerContent } from './readable-answer.ts'

// What is shown of an error is a sentence; servers have been seen to send megabytes, or no end.
const longestBytes = 64 * 1024
const longestMs = 10_000
const longestShown = 500

/**
 * The sentence in the body of an error answer, without the key that the request carried; of what is no
 * JSON the first 200 readable characters. Reads no more than 64 KiB and for no longer than 10 s, and
 * never fails: what had come is what was said.
 */
export async function refusalText(
  answer: AnswerContent & { readonly body: AnswerBody },
  authorization: string | undefined,
): Promise<string> {
  const { text, isWhole } = await beginning(answer.body, answer)
  const key = authorization?.replace(/^Bearer /, '') ?? ''
  const said = withoutKey(errorText(text), key, isWhole)
  // Last: JSON can escape the letters of a key, and a cut leaves a piece of it.
  return contentText(answer) === '' ? said.slice(0, longestShown) : readableText(said)
}

/** Headers that carry a key, as endpoints and providers name them. */
const keyHeaders = new Set(['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'])
/** A shorter key is a word such as `none`, and errors need their words. Characters. */
const shortestKey = 8

/**
 * The body of an answer to pass on in a `Response`. A success passes as it comes. Of an error status the
 * first 64 KiB pass, without the keys that the request carried: endpoints have been seen to repeat them.
 *
 * @param sent - the headers of the request
 */
export async function bodyWithoutKeys(
  answer: HttpAnswer,
  sent: Readonly<Record<string, string>>,
): Promise<ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer>> {
  const { status, body } = answer
  if (status >= 200 && status <= 299) return webBody(body)
  const { text, isWhole } = await beginning(body, answer)
  const clean = Object.entries(sent)
    .filter(([name]) => keyHeaders.has(name.toLowerCase()))
    .map(([, value]) => value.replace(/^Bearer /, ''))
    .filter((key) => key.length >= shortestKey)
    .reduce((rest, key) => withoutKey(normalized(rest, key), key, isWhole), text)
  return new TextEncoder().encode(clean)
}

/** A text with the key in it in plain letters: JSON can escape them, and rewritten it does not. */
function normalized(text: string, key: string): string {
  let plain: string
  try {
    plain = JSON.stringify(JSON.parse(text))
  } catch {
    plain = unescaped(text)
  }
  return plain.includes(key) ? plain : text
}

async function beginning(
  body: AnswerBody,
  content: AnswerContent,
): Promise<{ text: string; isWhole: boolean }> {
  const parts: Uint8Array[] = []
  let bytes = 0
  let isWhole = false
  const timer = startTimer(longestMs, () => body.destroy())
  try {
    for await (const part of body) {
      parts.push(part)
      bytes += part.length
      if (bytes > longestBytes) break
    }
    isWhole = bytes <= longestBytes
  } catch {
    // It broke off, or took too long.
  } finally {
    timer.clear()
    body.destroy()
  }
  return { text: bodyText(Buffer.concat(parts).subarray(0, longestBytes), content), isWhole }
}

/** The sentence in the shapes that OpenAI, FastAPI and proxies use. */
function errorText(body: string): string {
  let said: unknown
  try {
    const json = JSON.parse(body) as Record<string, unknown> | null
    const { error, detail, message } = json ?? {}
    const sentence = (error as { message?: unknown } | undefined)?.message
    said = sentence ?? error ?? detail ?? message ?? json
  } catch {
    // Not JSON, or the beginning of some: the text itself is all there is to say.
    said = unescaped(body)
  }
  return (typeof said === 'string' ? said : JSON.stringify(said)).trim()
}

function unescaped(text: string): string {
  return text.replace(/\\(?:u([0-9a-f]{4})|(["\\/]))/gi, (_all, code?: string, char = '') =>
    code === undefined ? String(char) : String.fromCodePoint(Number.parseInt(code, 16)),
  )
}

// Endpoints have been seen to repeat the key they refused.
function withoutKey(text: string, key: string, isWhole: boolean): string {
  if (key === '') return text
  const redacted = text.replaceAll(key, '[redacted]')
  if (isWhole) return redacted
  let length = key.length - 1
  while (length > 0 && !redacted.endsWith(key.slice(0, length))) length -= 1
  return redacted.slice(0, redacted.length - length)
}

/** What an answer says that should be a chat completion and is none, as a sentence without the key. */
export async function foreignText(
  answer: HttpAnswer,
  authorization: string | undefined,
): Promise<string> {
  const said = readableText(await refusalText(answer, authorization))
  const none = `answered ${answer.status}${contentText(answer)}, which is no chat completion`
  return said === '' ? none : `${none}: ${said}`
}

/**
 * The body of an answer for a `Response`. Unlike that of `Readable.toWeb` it may be cancelled at any
 * moment: there a piece that is already on its way throws where nobody can catch it.
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
