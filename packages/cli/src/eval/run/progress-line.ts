import { formatCount, formatDuration, type EvaluationProgress } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'

import { oneLine } from '../../command/surroundings.ts'

/** Where progress goes: a terminal, or a file or pipe. */
export interface ProgressOutput {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** What is known before the first item ends. */
export interface ProgressOptions {
  readonly passThreshold: number
  /** Eval function whose score decides what has passed; undefined for the reward. */
  readonly scoreName: string | undefined
  /** Items that have ended already, for good. */
  readonly earlier: readonly ItemEvent[]
}

/** An estimate from fewer items says nothing. */
const leastForEstimate = 5
/** Waits that are shorter, or follow one that was said sooner, are not said. Milliseconds. */
const leastWaitMs = 1_000
const betweenWaitsMs = 10_000

/**
 * Shows how far a run has come: one line that changes on a terminal, ten lines elsewhere. Says once
 * for each eval function what keeps it from giving a score.
 */
export class ProgressLine {
  readonly #output: ProgressOutput | undefined
  readonly #options: ProgressOptions
  readonly #warned = new Set<string>()
  readonly #start = performance.now()
  /** How many items failed for which reason. */
  readonly #failures = new Map<string, number>()
  #passed = 0
  /** Items that have ended since the start. */
  #ended = 0
  #shownTenths: number | undefined
  #shownAt = 0
  #open = false
  #saidWaitAt = -Infinity

  /** @param output - undefined: nothing is shown */
  constructor(output: ProgressOutput | undefined, options: ProgressOptions) {
    this.#output = output
    this.#options = options
    for (const item of options.earlier) this.#count(item)
  }

  update(update: EvaluationProgress): void {
    const { done, total, item } = update
    this.#shownTenths ??= Math.floor(((done - 1) / total) * 10)
    this.#ended += 1
    this.#count(item)
    this.#warn(item)
    const tenths = Math.floor((done / total) * 10)
    if (this.#output?.isTTY) {
      // Redrawing more often than the eye follows only costs time.
      if (done < total && performance.now() - this.#shownAt < 100) return
      this.#shownAt = performance.now()
      this.#output.write(`\r\u001B[2K${this.#text(update)}`)
      this.#open = true
    } else if (tenths > this.#shownTenths) {
      this.#shownTenths = tenths
      this.#output?.write(`${this.#text(update)}\n`)
    }
  }

  /** Says that a model call waits, because it was refused with a status. */
  wait(pauseMs: number, status: number): void {
    const now = performance.now()
    if (pauseMs < leastWaitMs || now - this.#saidWaitAt < betweenWaitsMs) return
    this.#saidWaitAt = now
    this.end()
    const what = status === 429 ? 'limits the rate of calls' : 'is overloaded'
    this.#output?.write(`The policy ${what} (${status}): waiting ${formatDuration(pauseMs)}.\n`)
  }

  /** Leaves the line, so that what is printed next stands below it. */
  end(): void {
    if (this.#open) this.#output?.write('\n')
    this.#open = false
  }

  #count({ reward, scores = {}, error_type: errorType }: ItemEvent): void {
    const { scoreName, passThreshold } = this.#options
    const score = scoreName === undefined ? reward : scores[scoreName]
    if ((score ?? -Infinity) >= passThreshold) this.#passed += 1
    if (errorType === null) return
    this.#failures.set(errorType, (this.#failures.get(errorType) ?? 0) + 1)
  }

  #warn({ source_row_index: row, run_index: run, model_tag: model, ...item }: ItemEvent): void {
    for (const [score, error] of Object.entries(item.score_errors ?? {})) {
      if (this.#warned.has(score)) continue
      this.#warned.add(score)
      const of = model === 'baseline' ? ' (baseline)' : ''
      this.end()
      this.#output?.write(
        `warning: Row ${row} attempt ${run}${of} got no score from ${score}: ${oneLine(error)}\n`,
      )
    }
  }

  #text({ done, total, inFlight }: EvaluationProgress): string {
    const { scoreName } = this.#options
    const passed = ((100 * this.#passed) / done).toFixed(0)
    const by = scoreName === undefined ? '' : ` by ${scoreName}`
    const perMs = this.#ended / (performance.now() - this.#start)
    const left = total - done
    return [
      `${formatCount(done)}/${formatCount(total)} rollouts`,
      `${passed} % passed${by}`,
      ...this.#failureText(),
      `${(1000 * perMs).toFixed(1)}/s`,
      ...(inFlight.limit < inFlight.most
        ? [`${inFlight.limit} of ${inFlight.most} at a time (rate limit)`]
        : []),
      ...(left > 0 && this.#ended >= leastForEstimate
        ? [`about ${formatDuration(left / perMs)} left`]
        : []),
    ].join('  ')
  }

  #failureText(): string[] {
    const kinds = [...this.#failures].toSorted(([, a], [, b]) => b - a)
    if (kinds.length === 0) return []
    const all = kinds.reduce((sum, [, count]) => sum + count, 0)
    const [only, ...others] = kinds.map(([type, count]) => [type, `${count} ${type}`] as const)
    const list =
      others.length === 0 ? only?.[0] : [only, ...others].map((kind) => kind?.[1]).join(', ')
    return [`${formatCount(all)} failed (${list})`]
  }
}
