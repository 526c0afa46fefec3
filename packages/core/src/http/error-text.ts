/** How much of an error's text is said over the wire, in a status and in the log. Bytes of UTF-8. */
export const errorTextBytes = 8 * 1024
/** How much of it failures carry and documents keep, for people. Bytes of UTF-8. */
export const longErrorTextBytes = 64 * 1024

const cutMark = /… \[cut: (\d+) characters in all\]$/
const longestMark = 64

/**
 * The beginning of `text` and the length of all of it, together at most `longestBytes` bytes of
 * UTF-8; a text that fits is left as it is. Messages of errors quote what they are about, and that
 * has been seen to be ten megabytes.
 */
export function beginningOf(text: string, longestBytes: number): string {
  // A code unit is three bytes at the most, so most texts need not be measured.
  if (text.length * 3 <= longestBytes) return text
  if (text.length <= longestBytes && Buffer.byteLength(text) <= longestBytes) return text
  const end = cutEnd(text) ?? `… [cut: ${text.length} characters in all]`
  const room = longestBytes - Buffer.byteLength(end)
  const bytes = Buffer.from(text.slice(0, room))
  let cut = Math.min(room, bytes.length)
  // Not within a character, whose further bytes begin with the bits 10.
  while (cut < bytes.length && ((bytes[cut] ?? 0) & 0xc0) === 0x80) cut -= 1
  return bytes.toString('utf8', 0, cut) + end
}

/** What {@link beginningOf} has put to the end of `text`; undefined when that is whole. */
export function cutEnd(text: string): string | undefined {
  return cutMark.exec(text.slice(-longestMark))?.[0]
}
