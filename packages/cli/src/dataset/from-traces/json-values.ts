import { createReadStream } from 'node:fs'

const [quote, backslash, openBrace, closeBrace, openBracket, closeBracket] = [
  ...Buffer.from('"\\{}[]'),
]

/** Larger objects are left out, so that one of them does not fill the memory. Bytes. */
const largest = 32 * 2 ** 20

/** Lists of objects that are read one by one, by the list around them: whole documents may not fit into memory. */
const lists: Readonly<Record<string, readonly string[]>> = {
  '': ['data', 'resourceSpans', 'resourceLogs'],
  data: ['resourceSpans', 'resourceLogs'],
  resourceSpans: ['scopeSpans'],
  resourceLogs: ['scopeLogs'],
  scopeSpans: ['spans'],
  scopeLogs: ['logRecords'],
}

/** An object of a file. */
export type FoundObject =
  | { readonly kind: 'record'; readonly value: unknown }
  /** A span or an event of a document of OpenTelemetry, which follows it. */
  | { readonly kind: 'span'; readonly value: unknown }
  | { readonly kind: 'document' }
  | { readonly kind: 'broken' | 'too large' }

/** An object that is not closed yet. */
interface OpenObject {
  /** The list that it is in; '' at the top. */
  readonly list: string
  pieces: Buffer[]
  size: number
  /** Of the values in it that are open, itself included. */
  depth: number
  /** The list in it that is being read, and whether there was one before. */
  inner: string | undefined
  wasRead: string | undefined
  key: string
}

/**
 * Reads the objects of a file one after the other: of JSON Lines, of one array, or of one document, whose lists of
 * records are read one by one.
 *
 * @throws the error of the file system
 */
export async function* readObjects(file: string): AsyncGenerator<FoundObject, void> {
  const open: OpenObject[] = []
  let isText = false
  let isEscaped = false
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    // Of the object that started in an earlier chunk.
    let start = 0
    const keep = (end: number): void => {
      const object = open.at(-1)
      if (object === undefined || object.wasRead !== undefined) return
      object.size += end - start
      if (object.size > largest) object.pieces = []
      else object.pieces.push(chunk.subarray(start, end))
    }
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at] ?? 0
      const object = open.at(-1)
      if (isText) {
        if (isEscaped) isEscaped = false
        else if (byte === backslash) isEscaped = true
        else if (byte === quote) isText = false
        if (isText && object?.depth === 1 && object.key.length < 16) {
          object.key += String.fromCharCode(byte)
        }
      } else if (byte === quote) {
        isText = object !== undefined
        if (object !== undefined) object.key = ''
      } else if (object === undefined || object.inner !== undefined) {
        if (byte === openBrace) {
          const list = object?.inner ?? ''
          const empty = { pieces: [], size: 0, depth: 1, inner: undefined, wasRead: undefined }
          open.push({ list, ...empty, key: '' })
          start = at
        } else if (byte === closeBracket && object !== undefined) object.inner = undefined
      } else if (byte === openBracket && object.depth === 1 && isList(object)) {
        object.inner = object.key
        object.wasRead = object.key
        object.pieces = []
      } else if (byte === openBrace || byte === openBracket) object.depth += 1
      else if (byte === closeBrace || byte === closeBracket) {
        object.depth -= 1
        if (object.depth > 0) continue
        keep(at + 1)
        open.pop()
        const found = foundIn(object)
        if (found !== undefined) yield found
      }
    }
    keep(chunk.length)
  }
  if (open.length > 0) yield { kind: 'broken' }
}

function isList({ list, key }: OpenObject): boolean {
  return lists[list]?.includes(key) === true
}

function foundIn({ list, wasRead, size, pieces }: OpenObject): FoundObject | undefined {
  const isSpan = list === 'spans' || list === 'logRecords'
  if (!isSpan && list !== '' && list !== 'data') return undefined
  if (wasRead !== undefined) return wasRead === 'data' ? undefined : { kind: 'document' }
  if (size > largest) return { kind: 'too large' }
  try {
    const value: unknown = JSON.parse(Buffer.concat(pieces).toString('utf8'))
    return { kind: isSpan ? 'span' : 'record', value }
  } catch {
    return { kind: 'broken' }
  }
}
