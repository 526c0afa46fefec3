import { open } from 'node:fs/promises'

/** A line of a file, without its newline. */
export interface FileLine {
  readonly text: string
  /** Of its first byte. */
  readonly offset: number
  /** The offset of the next line. */
  readonly end: number
}

/** All lines of a chunk stay in memory until its last one is read, so chunks are small. Bytes. */
const chunkSize = 256 * 1024
const newline = 0x0a

/**
 * The lines from an offset, read in chunks. A last line without a newline is omitted: it is still being
 * written, or its writer was killed.
 *
 * @throws the error of the file system
 */
export async function* readLines(
  file: string,
  from = 0,
): AsyncGenerator<FileLine[], void, undefined> {
  const handle = await open(file)
  try {
    let bytes = Buffer.allocUnsafe(chunkSize)
    /** Of `bytes[0]` in the file. */
    let offset = from
    let held = 0
    for (;;) {
      if (held === bytes.length) bytes = Buffer.concat([bytes, Buffer.allocUnsafe(bytes.length)])
      const { bytesRead } = await handle.read(bytes, held, bytes.length - held, offset + held)
      if (bytesRead === 0) return
      held += bytesRead
      const lines: FileLine[] = []
      let start = 0
      for (;;) {
        const end = bytes.subarray(0, held).indexOf(newline, start)
        if (end === -1) break
        const text = bytes.toString('utf8', start, end)
        lines.push({ text, offset: offset + start, end: offset + end + 1 })
        start = end + 1
      }
      bytes.copyWithin(0, start, held)
      held -= start
      offset += start
      if (lines.length > 0) yield lines
    }
  } finally {
    await handle.close()
  }
}
