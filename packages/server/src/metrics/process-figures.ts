import { monitorEventLoopDelay, type IntervalHistogram } from 'node:perf_hooks'

import { Counter, Gauge, type Registry } from 'prom-client'

/** How often the event loop is looked at. Milliseconds. */
const resolutionMs = 10

/** Figures of the process, under the names that dashboards for Node.js know. */
export class ProcessFigures {
  #delay: IntervalHistogram | undefined
  #closed = false
  #lastLook = performance.eventLoopUtilization()

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
      help: 'Share of the time since the last scrape in which the event loop was busy.',
      registers,
      collect: () => {
        const now = performance.eventLoopUtilization()
        utilization.set(performance.eventLoopUtilization(now, this.#lastLook).utilization)
        this.#lastLook = now
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
      help: 'Memory outside of the heap that JavaScript holds.',
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

  /** Measured from the first scrape on: where nobody scrapes, nobody pays. */
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

/** The time between two looks, less the one that was asked for. */
function delaySeconds(histogram: IntervalHistogram, percentile: number): number {
  return Math.max(histogram.percentile(percentile) / 1e9 - resolutionMs / 1000, 0)
}
