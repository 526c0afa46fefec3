import { Counter, Gauge, Registry } from 'prom-client'

import { CallbackFigures } from './callback-figures.ts'
import { PolicyFigures } from './policy-figures.ts'
import { ProcessFigures } from './process-figures.ts'
import { RolloutFigures } from './rollout-figures.ts'

/** Figures by the value of one label, as they are now. */
export type LabelledFigures = Readonly<Record<string, number>>

/**
 * What `/metrics` shows of one server. Labels take few values, all of them known here: no ids, no
 * addresses, no names that user code chose.
 */
export class ServerMetrics {
  readonly #registry = new Registry()
  readonly #process = new ProcessFigures(this.#registry)
  readonly #requests = new Counter({
    name: 'osmosis_http_requests_total',
    help: 'Requests that were answered, by route and status; route * is no route of the server.',
    labelNames: ['route', 'status'],
    registers: [this.#registry],
  })
  readonly rollouts = new RolloutFigures(this.#registry)
  readonly policy = new PolicyFigures(this.#registry)
  readonly callbacks = new CallbackFigures(this.#registry)

  /** Media type of {@link ServerMetrics.text}. */
  get contentType(): string {
    return this.#registry.contentType
  }

  /** Shows a figure that is looked up when somebody asks. */
  gauge(name: string, help: string, read: () => number | Promise<number>): void {
    const registers = [this.#registry]
    const collect = async (): Promise<void> => gauge.set(await read())
    const gauge: Gauge = new Gauge({ name, help, registers, collect })
  }

  /** The same for one figure each of some values of a label. */
  gauges(
    name: string,
    help: string,
    label: string,
    read: () => LabelledFigures | Promise<LabelledFigures>,
  ): void {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [this.#registry],
      collect: async () => {
        const figures = await read()
        gauge.reset()
        for (const [value, figure] of Object.entries(figures)) gauge.set({ [label]: value }, figure)
      },
    })
  }

  /** The same for a figure that only grows. */
  counter(name: string, help: string, read: () => number): void {
    const counter: Counter = new Counter({
      name,
      help,
      registers: [this.#registry],
      collect: () => {
        counter.reset()
        counter.inc(read())
      },
    })
  }

  /** The same for one such figure each of some values of a label. */
  counters(name: string, help: string, label: string, read: () => LabelledFigures): void {
    const counter: Counter = new Counter({
      name,
      help,
      labelNames: [label],
      registers: [this.#registry],
      collect: () => {
        counter.reset()
        for (const [value, figure] of Object.entries(read()))
          counter.inc({ [label]: value }, figure)
      },
    })
  }

  /** @param route - as it is declared, with parameters in braces */
  requestAnswered(route: string, status: number): void {
    this.#requests.inc({ route, status })
  }

  /** All figures as Prometheus reads them. */
  async text(): Promise<string> {
    return this.#registry.metrics()
  }

  /** Stops measuring; what was measured stays. */
  close(): void {
    this.#process.close()
  }
}
