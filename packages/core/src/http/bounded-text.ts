/**
 * Reads a body to its end, as UTF-8.
 *
 * @returns undefined when it is longer than `maxBytes`; the rest is not read then
 * @throws the error of the stream when it breaks off
 */
export async function boundedText(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<string | undefined> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body) {
    size += piece.length
    if (size > maxBytes) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}
