/** Longest error text on the wire, in a status and in the log. Bytes of UTF-8. */
export const errorTextBytes = 8 * 1024
/** Longest error text of failures and in documents. Bytes of UTF-8. */
export const longErrorTextBytes = 64 * 1024

const cutMark = /… \[cut: (\d+) characters in all\]$/
const maxMarkLength = 64

/**
 * Truncates `text` to `maxBytes` bytes of UTF-8, a note of its length included. Error messages quote their
 * input, which can have megabytes.
 */
export function beginningOf(text: string, maxBytes: number): string {
  // A code unit has at most three bytes, so most texts need not be measured.
  if (text.length * 3 <= maxBytes) return text
  if (text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes) return text
  const end = cutEnd(text) ?? `… [cut: ${text.length} characters in all]`
  const room = maxBytes - Buffer.byteLength(end)
  const bytes = Buffer.from(text.slice(0, room))
  let cut = Math.min(room, bytes.length)
  // Not within a character: its later bytes start with the bits 10.
  while (cut < bytes.length && ((bytes[cut] ?? 0) & 0xc0) === 0x80) cut -= 1
  return bytes.toString('utf8', 0, cut) + end
}

/** The note that {@link beginningOf} appended to `text`; undefined when it was not truncated. */
export function cutEnd(text: string): string | undefined {
  return cutMark.exec(text.slice(-maxMarkLength))?.[0]
}

/**
 * A URL as messages and logs may show it: without user info, query and fragment, which may hold keys. Of what is no http or https
 * URL, as with a `#` or a `/` in a password, what follows the last `@`.
 */
export function shownUrl(url: string | URL): string {
  const parsed = URL.parse(String(url))
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    return String(url)
      .replace(/^.*@/s, '')
      .replace(/[?#].*$/s, '')
  }
  const { protocol, host, pathname } = parsed
  return `${protocol}//${host}${pathname}`
}
