import { monitorEventLoopDelay, type IntervalHistogram } from 'node:perf_hooks'

import { Counter, Gauge, Registry } from 'prom-client'

import { PolicyFigures, RolloutFigures } from './rollout-figures.ts'

/** Resolution of the event loop delay. Milliseconds. */
const resolutionMs = 10

/** Figures of the process, under the names that Node.js dashboards use. */
class ProcessFigures {
  #delay: IntervalHistogram | undefined
  #closed = false
  #lastUtilization = performance.eventLoopUtilization()

  constructor(registry: Registry) {
    const registers = [registry]
    const p50: Gauge = new Gauge({
      name: 'nodejs_eventloop_lag_p50_seconds',
      help: 'Median delay of the event loop since the last scrape.',
      registers,
      collect: () => this.#showDelays(p50, p99),
    })
    const p99 = new Gauge({
      name: 'nodejs_eventloop_lag_p99_seconds',
      help: '99th percentile of the delay of the event loop since the last scrape.',
      registers,
    })
    const utilization: Gauge = new Gauge({
      name: 'nodejs_eventloop_utilization',
      help: 'Fraction of the time since the last scrape in which the event loop was busy.',
      registers,
      collect: () => {
        const now = performance.eventLoopUtilization()
        utilization.set(performance.eventLoopUtilization(now, this.#lastUtilization).utilization)
        this.#lastUtilization = now
      },
    })
    const cpu: Counter = new Counter({
      name: 'process_cpu_seconds_total',
      help: 'CPU time of the process, user and system.',
      registers,
      collect: () => {
        const { user, system } = process.cpuUsage()
        cpu.reset()
        cpu.inc((user + system) / 1e6)
      },
    })
    const resident: Gauge = new Gauge({
      name: 'process_resident_memory_bytes',
      help: 'Memory of the process.',
      registers,
      collect: () => {
        const { rss, heapUsed, external } = process.memoryUsage()
        resident.set(rss)
        heap.set(heapUsed)
        buffers.set(external)
      },
    })
    const heap = new Gauge({
      name: 'nodejs_heap_size_used_bytes',
      help: 'JavaScript heap in use.',
      registers,
    })
    const buffers = new Gauge({
      name: 'nodejs_external_memory_bytes',
      help: 'Memory outside of the heap that JavaScript objects hold.',
      registers,
    })
    const start = new Gauge({
      name: 'process_start_time_seconds',
      help: 'When the process was started, in seconds since 1970.',
      registers,
    })
    start.set(Math.round(performance.timeOrigin / 1000))
  }

  close(): void {
    this.#closed = true
    this.#delay?.disable()
  }

  /** Measures from the first scrape on: servers without a scraper do not pay for it. */
  #showDelays(p50: Gauge, p99: Gauge): void {
    if (this.#delay === undefined) {
      if (this.#closed) return
      this.#delay = monitorEventLoopDelay({ resolution: resolutionMs })
      this.#delay.enable()
      return
    }
    p50.set(delaySeconds(this.#delay, 50))
    p99.set(delaySeconds(this.#delay, 99))
    this.#delay.reset()
  }
}

/** The delay beyond the interval between two measurements. */
function delaySeconds(histogram: IntervalHistogram, percentile: number): number {
  return Math.max(histogram.percentile(percentile) / 1e9 - resolutionMs / 1000, 0)
}

const callbackOutcomes = ['acknowledged', 'refused', 'gave_up'] as const

/** Attempts and outcomes of callbacks. */
export class CallbackFigures {
  readonly #attempts: Counter
  readonly #outcomes: Counter

  constructor(registry: Registry) {
    const registers = [registry]
    this.#attempts = new Counter({
      name: 'osmosis_callback_attempts_total',
      help: 'Attempts to send callbacks, retries included.',
      labelNames: ['kind'],
      registers,
    })
    this.#outcomes = new Counter({
      name: 'osmosis_callbacks_total',
      help: 'Callbacks by outcome: acknowledged, refused, or gave_up when the time for retries was over.',
      labelNames: ['kind', 'outcome'],
      registers,
    })
  }

  /** Starts callbacks of these kinds at 0: Prometheus sees no increase to a first value. */
  expect(...kinds: readonly string[]): void {
    for (const kind of kinds) {
      this.#attempts.inc({ kind }, 0)
      for (const outcome of callbackOutcomes) this.#outcomes.inc({ kind, outcome }, 0)
    }
  }

  attempted(kind: string): void {
    this.#attempts.inc({ kind })
  }

  ended(kind: string, outcome: string): void {
    this.#outcomes.inc({ kind, outcome })
  }
}

/** Figures by the value of one label, as they are now. */
export type LabelledFigures = Readonly<Record<string, number>>

/**
 * What `/metrics` shows of one server. Labels have few values, all of them known in advance: no ids, no
 * addresses, no names that user code chose.
 */
export class ServerMetrics {
  readonly #registry = new Registry()
  readonly #process = new ProcessFigures(this.#registry)
  readonly #requests = new Counter({
    name: 'osmosis_http_requests_total',
    help: 'Answered requests by route and status; the route of unknown paths is *.',
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

  /** Registers a figure that is read at each scrape. */
  gauge(name: string, help: string, read: () => number | Promise<number>): void {
    const registers = [this.#registry]
    const collect = async (): Promise<void> => gauge.set(await read())
    const gauge: Gauge = new Gauge({ name, help, registers, collect })
  }

  /** The same, with a label. */
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

  /** The same for a figure that only increases. */
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

  /** The same for an increasing figure, with a label. */
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

  /** All figures in Prometheus's text format. */
  async text(): Promise<string> {
    return this.#registry.metrics()
  }

  /** Stops measuring; the figures remain readable. */
  close(): void {
    this.#process.close()
  }
}
