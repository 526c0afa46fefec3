import { createReadStream } from 'node:fs'

const lineFeed = 0x0a

/** One line of a file. */
export interface TextLine {
  /** From 1, blank lines counted. */
  readonly number: number
  /** Without the line feed, and without the byte order mark of the file. */
  readonly bytes: Buffer
}

/**
 * Reads a whole file line by line, also a last line without a line feed, which `readLines` leaves out. Lines end at the byte `\n` only: `node:readline` also splits at U+2028
 * and U+2029, which are legal inside JSON strings.
 *
 * @throws the error of the file system
 */
export async function* readTextLines(file: string): AsyncGenerator<TextLine, void> {
  // Pieces of the incomplete line; joined once, so that long lines take linear time.
  let pieces: Buffer[] = []
  let number = 0
  function completeLine(last: Buffer): TextLine {
    const bytes = pieces.length === 0 ? last : Buffer.concat([...pieces, last])
    pieces = []
    number += 1
    return { number, bytes: number === 1 ? withoutByteOrderMark(bytes) : bytes }
  }
  const chunks = createReadStream(file) as AsyncIterable<Buffer>
  for await (const chunk of chunks) {
    let start = 0
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, start)) {
      yield completeLine(chunk.subarray(start, end))
      start = end + 1
    }
    if (start < chunk.length) pieces.push(chunk.subarray(start))
  }
  if (pieces.length > 0) yield completeLine(Buffer.alloc(0))
}

/** @param bytes - the beginning of a file */
export function withoutByteOrderMark(bytes: Buffer): Buffer {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of these bytes; undefined when they are not UTF-8. */
export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}
