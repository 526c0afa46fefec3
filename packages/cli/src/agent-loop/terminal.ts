import { createInterface, type Interface } from 'node:readline'

import type { InputStream, OutputStream } from '../command/surroundings.ts'

/** A person at a terminal: lines go out, answers come in. Whoever makes one closes it. */
export class Terminal implements Disposable {
  readonly #lines: Interface
  readonly #output: OutputStream
  /** Typed ahead. */
  readonly #typed: string[] = []
  #waiting: ((line: string | null) => void) | undefined
  #closed = false

  constructor(input: InputStream, output: OutputStream) {
    this.#output = output
    this.#lines = createInterface({ input, output })
    this.#lines.on('line', (line) => this.#receive(line))
    // Ctrl-C and Ctrl-D both mean that nobody answers any more.
    this.#lines.on('SIGINT', () => this.#lines.close())
    this.#lines.on('close', () => {
      this.#closed = true
      this.#waiting?.(null)
    })
  }

  print(...lines: readonly string[]): void {
    this.#output.write(lines.map((line) => `${line}\n`).join(''))
  }

  /** Asks for a line, without the space around it; null when there will be none any more. */
  async ask(prompt: string): Promise<string | null> {
    const typed = this.#typed.shift()
    this.#lines.setPrompt(prompt)
    if (typed !== undefined) {
      this.#output.write(`${prompt}\n`)
      return typed
    }
    if (this.#closed) return null
    this.#lines.prompt()
    const { promise, resolve } = Promise.withResolvers<string | null>()
    this.#waiting = resolve
    return promise
  }

  [Symbol.dispose](): void {
    this.#lines.close()
  }

  #receive(line: string): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    if (waiting) waiting(line.trim())
    else this.#typed.push(line.trim())
  }
}
