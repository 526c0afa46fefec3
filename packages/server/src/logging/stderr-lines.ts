import { fstatSync, write, writeSync } from 'node:fs'

const stderr = 2
/** What a pipe takes at once on Linux; less is written where it is smaller. */
const pipeBytes = 64 * 1024
/** Characters that wait at the most, for a reader who does not read. */
const mostWaiting = 8 * 1024 * 1024
/** When a full pipe is tried again. Milliseconds. */
const fullMs = 5
/** A write that has not come back by then waits for a reader. Milliseconds. */
const stuckMs = 1000
/** How long a process that ends lets a write that is on its way finish. Milliseconds. */
const lastWaitMs = 50

/**
 * Lines on stderr. A file or a terminal takes them at once. Whoever is at the other end of a pipe may
 * stop reading, and a full pipe would then hold up the whole process, so lines for one are written
 * beside the event loop, wait in memory when they must, and are dropped and counted when too many wait.
 */
export class StderrLines {
  readonly #isPipe: boolean
  #waiting: string[] = []
  #waitingLength = 0
  #dropped = 0
  /** What is being written, and since when. */
  #left = Buffer.alloc(0)
  #writingSince: number | undefined

  constructor() {
    this.#isPipe = isPipe()
    if (this.#isPipe) process.on('exit', () => this.#writeLast())
  }

  write(line: string): void {
    if (!this.#isPipe) {
      try {
        writeSync(stderr, line)
      } catch {
        // The disk is full, or the terminal is gone: a log line is not worth a process.
      }
    } else if (this.#waitingLength + line.length > mostWaiting) {
      this.#dropped += 1
    } else {
      this.#waiting.push(line)
      this.#waitingLength += line.length
      if (this.#writingSince === undefined) this.#writeOn()
    }
  }

  #writeOn(): void {
    if (this.#left.length === 0) this.#left = Buffer.from(this.#taken())
    if (this.#left.length === 0) {
      this.#writingSince = undefined
      return
    }
    this.#writingSince = performance.now()
    write(stderr, this.#left, 0, Math.min(this.#left.length, pipeBytes), null, (error, written) => {
      if (isFull(error)) setTimeout(() => this.#writeOn(), fullMs).unref()
      // Any other error ends the log: nobody will read it.
      if (error) return
      this.#left = this.#left.subarray(written)
      this.#writeOn()
    })
  }

  #taken(): string {
    const text = this.#waiting.join('')
    this.#waiting = []
    this.#waitingLength = 0
    if (this.#dropped === 0) return text
    const msg = `${this.#dropped} lines of the log were dropped: nobody read them`
    this.#dropped = 0
    return `${text}${JSON.stringify({ level: 40, time: Date.now(), msg })}\n`
  }

  #writeLast(): void {
    let begun = 0
    if (this.#writingSince !== undefined) {
      if (performance.now() - this.#writingSince > stuckMs) return
      // A thread writes while this one sleeps; whether it was done is not to be learned any more.
      sleep(lastWaitMs)
      begun = pipeBytes
    }
    let rest = Buffer.concat([this.#left.subarray(begun), Buffer.from(this.#taken())])
    for (let waited = 0; rest.length > 0 && waited < stuckMs;) {
      const written = writtenNow(rest)
      rest = rest.subarray(written)
      waited = written > 0 ? 0 : waited + fullMs
    }
  }
}

/** How many bytes of it the pipe took; a little later none, when it is full. */
function writtenNow(bytes: Buffer): number {
  try {
    return writeSync(stderr, bytes)
  } catch (error) {
    // Of any other error the end is the same: nobody reads.
    if (!isFull(error as NodeJS.ErrnoException)) return bytes.length
    sleep(fullMs)
    return 0
  }
}

/** Whether a pipe that does not block, as those are that Node.js gives its children, is full. */
function isFull(error: NodeJS.ErrnoException | null): boolean {
  return error?.code === 'EAGAIN'
}

function sleep(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

function isPipe(): boolean {
  try {
    const found = fstatSync(stderr)
    return found.isFIFO() || found.isSocket()
  } catch {
    return false
  }
}
