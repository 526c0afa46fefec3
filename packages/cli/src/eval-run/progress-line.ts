import type { EvaluationProgress } from '@osmosis/eval'

/** Where progress goes: a terminal, or a file or pipe. */
export interface ProgressOutput {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** Shows how far a run has come: one line that changes on a terminal, ten lines elsewhere. */
export class ProgressLine {
  readonly #output: ProgressOutput
  readonly #passThreshold: number
  readonly #start = performance.now()
  #passed = 0
  #shownTenths = 0
  #shownAt = 0
  #open = false

  constructor(output: ProgressOutput, passThreshold: number) {
    this.#output = output
    this.#passThreshold = passThreshold
  }

  update({ done, total, item }: EvaluationProgress): void {
    if (item.reward !== null && item.reward >= this.#passThreshold) this.#passed += 1
    const tenths = Math.floor((done / total) * 10)
    if (this.#output.isTTY) {
      // Redrawing more often than the eye follows only costs time.
      if (done < total && performance.now() - this.#shownAt < 100) return
      this.#shownAt = performance.now()
      this.#output.write(`\r\u001B[2K${this.#text(done, total)}`)
      this.#open = true
    } else if (tenths > this.#shownTenths) {
      this.#shownTenths = tenths
      this.#output.write(`${this.#text(done, total)}\n`)
    }
  }

  /** Leaves the line, so that what is printed next stands below it. */
  end(): void {
    if (this.#open) this.#output.write('\n')
    this.#open = false
  }

  #text(done: number, total: number): string {
    const seconds = (performance.now() - this.#start) / 1000
    const rate = (done / seconds).toFixed(1)
    const passed = ((100 * this.#passed) / done).toFixed(0)
    return `${done}/${total} rollouts  ${passed} % passed  ${rate}/s`
  }
}
