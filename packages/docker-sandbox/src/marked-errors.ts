import type { LimitedOutput } from '@osmosis/core/sandbox'

/** The longest end of stderr in which the last mark is looked for. Bytes. */
const heldBytes = 4096

interface MarkListeners {
  /** Gets the process that leads the group of the command. */
  leader(pid: number): void
  /** Called when the command has ended, maybe several times. */
  end(): void
}

/** Takes the lines of the wrapper, which have a mark, out of what a command writes to stderr. */
export class MarkedErrors {
  readonly #mark: string
  readonly #output: LimitedOutput
  readonly #on: MarkListeners
  #held = Buffer.alloc(0)
  #hasLeader = false

  constructor(mark: string, output: LimitedOutput, on: MarkListeners) {
    this.#mark = mark
    this.#output = output
    this.#on = on
  }

  add(piece: Uint8Array): void {
    this.#held = Buffer.concat([this.#held, piece])
    if (!this.#hasLeader) this.#takeLeader()
    if (this.#findEnd() !== undefined) this.#on.end()
    const free = this.#held.length - heldBytes
    if (!this.#hasLeader || free <= 0) return
    this.#output.add(this.#held.subarray(0, free))
    this.#held = this.#held.subarray(free)
  }

  /** How the command ended: a null code when it was killed. */
  finish(): { started: boolean; exitCode: number | null } {
    const end = this.#findEnd()
    this.#output.add(end === undefined ? this.#held : end.before)
    if (end !== undefined) this.#output.add(end.after)
    const started = this.#hasLeader && end?.code !== 'none'
    return { started, exitCode: end === undefined || !started ? null : Number(end.code) }
  }

  #takeLeader(): void {
    const line = new RegExp(`^${this.#mark} (\\d+)\n`).exec(this.#held.toString('latin1'))
    if (line === null) return
    this.#held = this.#held.subarray(line[0].length)
    this.#hasLeader = true
    this.#on.leader(Number(line[1]))
  }

  #findEnd(): { code: string; before: Buffer; after: Buffer } | undefined {
    const line = new RegExp(`\n${this.#mark} (\\w+)\n`).exec(this.#held.toString('latin1'))
    if (line?.[1] === undefined) return undefined
    return {
      code: line[1],
      before: this.#held.subarray(0, line.index),
      after: this.#held.subarray(line.index + line[0].length),
    }
  }
}
