import { randomUUID } from 'node:crypto'
import { closeSync, mkdirSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** The place of a value: a number, because there may be a million of them. */
export type SpooledPlace = number

/** Digits before a value that say how long it is. */
const lengthDigits = 10
/** What is read at first. Most values are shorter. Bytes. */
const firstRead = 4096
/** Values that wait are written together. Bytes. */
const mostWaiting = 2 ** 20

/** Values that may be more than fit into memory, in a file that only this user can read and that is deleted at the end. */
export class SpooledValues {
  readonly #file: string
  readonly #descriptor: number
  #waiting: Buffer[] = []
  #waitingSize = 0
  #written = 0

  /** @param folder - where there is room for them. Default: that of temporary files */
  constructor(folder: string = tmpdir()) {
    mkdirSync(folder, { recursive: true })
    this.#file = path.join(folder, `.${randomUUID()}.tmp`)
    this.#descriptor = openSync(this.#file, 'wx+', 0o600)
  }

  put(value: unknown): SpooledPlace {
    const bytes = Buffer.from(JSON.stringify(value))
    const place = this.#written + this.#waitingSize
    this.#waiting.push(Buffer.from(String(bytes.length).padEnd(lengthDigits)), bytes)
    this.#waitingSize += lengthDigits + bytes.length
    if (this.#waitingSize > mostWaiting) this.#write()
    return place
  }

  get(place: SpooledPlace): unknown {
    if (this.#waitingSize > 0) this.#write()
    const first = this.#bytes(place, firstRead)
    const start = lengthDigits
    const end = start + Number(first.toString('latin1', 0, start))
    const bytes =
      end <= first.length ? first.subarray(start, end) : this.#bytes(place + start, end - start)
    return JSON.parse(bytes.toString())
  }

  #bytes(at: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafe(length)
    let end = 0
    while (end < length) {
      const read = readSync(this.#descriptor, bytes, end, length - end, at + end)
      if (read === 0) break
      end += read
    }
    return bytes.subarray(0, end)
  }

  [Symbol.dispose](): void {
    closeSync(this.#descriptor)
    rmSync(this.#file, { force: true })
  }

  #write(): void {
    const bytes = Buffer.concat(this.#waiting)
    for (let done = 0; done < bytes.length;) {
      done += writeSync(this.#descriptor, bytes, done, bytes.length - done, this.#written + done)
    }
    this.#written += bytes.length
    this.#waiting = []
    this.#waitingSize = 0
  }
}
