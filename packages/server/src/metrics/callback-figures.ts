import { Counter, type Registry } from 'prom-client'

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

  attempted(kind: string): void {
    this.#attempts.inc({ kind })
  }

  ended(kind: string, outcome: string): void {
    this.#outcomes.inc({ kind, outcome })
  }
}
