import type { ResponseBody } from '@osmosis/core/http'

/**
 * Reads a body to its end, as UTF-8.
 *
 * @returns undefined when it is longer than `maxBytes`; the rest is not read then
 * @throws the error of the stream when it ends early
 */
export async function boundedText(
  body: ResponseBody,
  maxBytes: number,
): Promise<string | undefined> {
  return (await boundedBytes(body, maxBytes))?.toString('utf8')
}

/** The same, as bytes. */
export async function boundedBytes(
  body: ResponseBody,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const pieces: Uint8Array[] = []
  let size = 0
  try {
    for (let some = await body.next(); some !== undefined; some = await body.next()) {
      for (const piece of some) {
        size += piece.length
        if (size > maxBytes) return undefined
        pieces.push(piece)
      }
    }
  } finally {
    body.destroy()
  }
  return Buffer.concat(pieces)
}
