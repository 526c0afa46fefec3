import type { EvaluationProgress, ItemRecord } from '@osmosis/eval'

import { oneLine } from '../agent-loop/outcome-text.ts'

/** Where progress goes: a terminal, or a file or pipe. */
export interface ProgressOutput {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/**
 * Shows how far a run has come: one line that changes on a terminal, ten lines elsewhere. Says once
 * for each eval function what keeps it from giving a score.
 */
export class ProgressLine {
  readonly #output: ProgressOutput
  readonly #passThreshold: number
  readonly #scoreName: string | undefined
  readonly #warned = new Set<string>()
  readonly #start = performance.now()
  #passed = 0
  #shownTenths = 0
  #shownAt = 0
  #open = false

  /** @param scoreName - eval function whose score decides what has passed; default: the reward */
  constructor(output: ProgressOutput, passThreshold: number, scoreName?: string) {
    this.#output = output
    this.#passThreshold = passThreshold
    this.#scoreName = scoreName
  }

  update({ done, total, item }: EvaluationProgress): void {
    this.#warn(item)
    const score = this.#scoreName === undefined ? item.reward : item.scores[this.#scoreName]
    if ((score ?? -Infinity) >= this.#passThreshold) this.#passed += 1
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

  #warn({ sourceRowIndex, runIndex, model, scoreErrors }: ItemRecord): void {
    for (const [score, error] of Object.entries(scoreErrors)) {
      if (this.#warned.has(score)) continue
      this.#warned.add(score)
      this.end()
      const of = model === 'primary' ? '' : ` (${model})`
      const item = `Row ${sourceRowIndex} attempt ${runIndex}${of}`
      this.#output.write(`warning: ${item} got no score from ${score}: ${oneLine(error)}\n`)
    }
  }

  #text(done: number, total: number): string {
    const seconds = (performance.now() - this.#start) / 1000
    const rate = (done / seconds).toFixed(1)
    const passed = ((100 * this.#passed) / done).toFixed(0)
    const by = this.#scoreName === undefined ? '' : ` by ${this.#scoreName}`
    return `${done}/${total} rollouts  ${passed} % passed${by}  ${rate}/s`
  }
}
