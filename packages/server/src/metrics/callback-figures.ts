import { Counter, type Registry } from 'prom-client'

const outcomes = ['acknowledged', 'refused', 'gave_up'] as const

/** Sending of callbacks. */
export class CallbackFigures {
  readonly #attempts: Counter
  readonly #outcomes: Counter

  constructor(registry: Registry) {
    const registers = [registry]
    this.#attempts = new Counter({
      name: 'osmosis_callback_attempts_total',
      help: 'How often callbacks were sent, repetitions included.',
      labelNames: ['kind'],
      registers,
    })
    this.#outcomes = new Counter({
      name: 'osmosis_callbacks_total',
      help: 'Callbacks by what became of them: acknowledged, refused, or gave_up when the time for trying was over.',
      labelNames: ['kind', 'outcome'],
      registers,
    })
  }

  /** Shows callbacks of these kinds before there are any: Prometheus sees no increase to a first figure. */
  expect(...kinds: readonly string[]): void {
    for (const kind of kinds) {
      this.#attempts.inc({ kind }, 0)
      for (const outcome of outcomes) this.#outcomes.inc({ kind, outcome }, 0)
    }
  }

  attempted(kind: string): void {
    this.#attempts.inc({ kind })
  }

  ended(kind: string, outcome: string): void {
    this.#outcomes.inc({ kind, outcome })
  }
}
