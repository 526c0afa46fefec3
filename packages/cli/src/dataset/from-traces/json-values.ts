import { createReadStream } from 'node:fs'

const [quote, backslash, openBrace, closeBrace, openBracket, closeBracket] = [
  ...Buffer.from('"\\{}[]'),
]

/**
 * Reads the objects of a file one after the other: of JSON Lines, of one array, or of one document. Yields undefined for
 * text that is not JSON.
 *
 * @throws the error of the file system
 */
export async function* readObjects(file: string): AsyncGenerator<unknown, void> {
  let pieces: Buffer[] = []
  let depth = 0
  let isText = false
  let isEscaped = false
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    // Of the object that started; -1 between objects.
    let start = depth > 0 ? 0 : -1
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at]
      if (isText) {
        if (isEscaped) isEscaped = false
        else if (byte === backslash) isEscaped = true
        else if (byte === quote) isText = false
      } else if (byte === openBrace || (byte === openBracket && depth > 0)) {
        if (depth === 0) start = at
        depth += 1
      } else if ((byte === closeBrace || byte === closeBracket) && depth > 0) {
        depth -= 1
        if (depth > 0) continue
        yield parsed(Buffer.concat([...pieces, chunk.subarray(start, at + 1)]))
        pieces = []
        start = -1
      } else if (byte === quote && depth > 0) isText = true
    }
    if (start !== -1) pieces.push(chunk.subarray(start))
  }
  if (depth > 0) yield undefined
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}
