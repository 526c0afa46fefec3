import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'

import type { ItemEvent } from '../../analysis/records/item-event.ts'

/** Lines of the server's log are far shorter; those that user code prints may be longer. Bytes. */
const maxLineLength = 256 * 1024
const newline = 10

/** The place of a line. Bytes. */
interface LinePlace {
  readonly offset: number
  readonly length: number
}

/** A line of the log about a rollout. */
interface RolloutLine {
  readonly msg?: unknown
  readonly error?: LoggedError
  /** What the server says of a rollout that it grades all the same. */
  readonly warning?: unknown
}
interface LoggedError {
  readonly stack?: unknown
  readonly cause?: LoggedError
}

/** Finds stacks in `logs.txt`, which has the output of the server of a run and of user code. */
export class RunLog {
  readonly #file: string
  /** The last line about a failure of each rollout, by its id. */
  #failures = new Map<string, LinePlace>()
  /** The last warning about each rollout. */
  #warnings = new Map<string, LinePlace>()
  #inode: number | undefined
  /** The file has been read up to this offset, the beginning of a line or a place in a line that is too long. */
  #read = 0
  /** Whether the beginning of the line at that offset was dropped, because the line is too long. */
  #isWithinLine = false
  #reading: Promise<void> = Promise.resolve()

  constructor(file: string) {
    this.#file = file
  }

  /** The stack of the error of a rollout, and those of its causes; undefined when it was not logged. */
  async stackOf({
    rollout_id: id,
    error_message: message,
  }: Pick<ItemEvent, 'rollout_id' | 'error_message'>): Promise<string | undefined> {
    if (message === null) return undefined
    const { msg, error } = (await this.#failureOf(id)) ?? {}
    // A later re-grading may have failed with another error than the logged one.
    const [start = ''] = message.slice(0, 200).split('\n', 1)
    return String(msg).includes(start) ? stacksOf(error) : undefined
  }

  /** What the log has about the last error of a rollout, on one line; undefined for none. */
  async errorOf({ rollout_id: id }: Pick<ItemEvent, 'rollout_id'>): Promise<string | undefined> {
    const { msg } = (await this.#failureOf(id)) ?? {}
    return typeof msg === 'string' ? msg.split('\n', 1)[0] : undefined
  }

  /** The last warning about a rollout; undefined for none. */
  async warningOf({ rollout_id: id }: Pick<ItemEvent, 'rollout_id'>): Promise<string | undefined> {
    const { warning } = (await this.#lineOf(id, () => this.#warnings)) ?? {}
    return typeof warning === 'string' ? warning : undefined
  }

  #failureOf(id: string): Promise<RolloutLine | undefined> {
    return this.#lineOf(id, () => this.#failures)
  }

  async #lineOf(
    id: string,
    places: () => ReadonlyMap<string, LinePlace>,
  ): Promise<RolloutLine | undefined> {
    try {
      await (this.#reading = this.#reading.then(() => this.#readNew()).catch(() => {}))
      const place = places().get(id)
      return place && (JSON.parse(await this.#lineAt(place)) as RolloutLine)
    } catch {
      // The log is written by user code too: it may be missing, or contain anything.
      return undefined
    }
  }

  async #readNew(): Promise<void> {
    const found = await stat(this.#file).catch(() => undefined)
    if (found?.ino !== this.#inode || found === undefined || found.size < this.#read) {
      this.#failures = new Map()
      this.#warnings = new Map()
      this.#read = 0
      this.#isWithinLine = false
    }
    this.#inode = found?.ino
    if (found === undefined || found.size === this.#read) return
    let held: Buffer = Buffer.alloc(0)
    const pieces = createReadStream(this.#file, { start: this.#read, highWaterMark: 1024 * 1024 })
    for await (const piece of pieces as AsyncIterable<Buffer>) {
      const text = held.length === 0 ? piece : Buffer.concat([held, piece])
      let begin = 0
      for (let end = text.indexOf(newline); end !== -1; end = text.indexOf(newline, begin)) {
        if (!this.#isWithinLine) this.#note(text.subarray(begin, end), this.#read)
        this.#isWithinLine = false
        this.#read += end + 1 - begin
        begin = end + 1
      }
      held = text.subarray(begin)
      if (held.length <= maxLineLength) continue
      this.#read += held.length
      this.#isWithinLine = true
      held = Buffer.alloc(0)
    }
  }

  #note(line: Buffer, offset: number): void {
    if (line.length > maxLineLength) return
    const places = line.includes('"stack":')
      ? this.#failures
      : line.includes('"warning":')
        ? this.#warnings
        : undefined
    if (places === undefined) return
    const [, id] = /^\{.{0,100}"rollout_id":"([^"\\]+)"/.exec(line.toString('utf8', 0, 1000)) ?? []
    if (id !== undefined) places.set(id, { offset, length: line.length })
  }

  async #lineAt({ offset, length }: LinePlace): Promise<string> {
    const file = await open(this.#file)
    try {
      const { buffer } = await file.read(Buffer.alloc(length), 0, length, offset)
      return buffer.toString()
    } finally {
      await file.close()
    }
  }
}

function stacksOf(error: LoggedError | undefined): string | undefined {
  const stacks: string[] = []
  for (let link = error; link !== undefined && stacks.length < 8; link = link.cause) {
    if (typeof link.stack === 'string') stacks.push(link.stack)
  }
  return stacks.length === 0 ? undefined : stacks.join('\nCaused by: ')
}
