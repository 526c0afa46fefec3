import type { AnswerBody } from './answer-body.ts'
import { startTimer } from './long-timer.ts'

// What is shown of an error is a sentence; servers have been seen to send megabytes, or no end.
const longestBytes = 64 * 1024
const longestMs = 10_000
const longestShown = 500

/**
 * The sentence in the body of an error answer, without the key that the request carried. Reads no
 * more than 64 KiB and for no longer than 10 s, and never fails: what had come is what was said.
 */
export async function refusalText(
  body: AnswerBody,
  authorization: string | undefined,
): Promise<string> {
  const { text, isWhole } = await beginning(body)
  const key = authorization?.replace(/^Bearer /, '') ?? ''
  const said = withoutKey(errorText(text), key, isWhole)
  // Last: JSON can escape the letters of a key, and a cut leaves a piece of it.
  return said.slice(0, longestShown)
}

async function beginning(body: AnswerBody): Promise<{ text: string; isWhole: boolean }> {
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
  return { text: Buffer.concat(parts).subarray(0, longestBytes).toString('utf8'), isWhole }
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
