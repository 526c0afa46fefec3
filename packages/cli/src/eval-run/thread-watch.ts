import type { ServerProcess } from './server-process.ts'

/** How long a thread was looked at, and for how much of it it was busy. */
export interface ThreadLook {
  /** Milliseconds. */
  readonly busyMs: number
  /** Milliseconds. */
  readonly ms: number
}

/** Watches the thread that all rollouts of a server share. One look at a time. */
export class ThreadWatch {
  readonly #server: Pick<ServerProcess, 'url' | 'apiKey'>
  #since: number | undefined
  #memoryBytes = 0
  #total: ThreadLook = { busyMs: 0, ms: 0 }

  constructor(server: Pick<ServerProcess, 'url' | 'apiKey'>) {
    this.#server = server
  }

  /** The sum of all looks. */
  get total(): ThreadLook {
    return this.#total
  }

  /** Of the process, at the last look. */
  get memoryBytes(): number {
    return this.#memoryBytes
  }

  /** What the thread did since the look before; the first one is about nothing. */
  async look(signal?: AbortSignal): Promise<ThreadLook> {
    const figures = await this.#figures(signal)
    if (figures === undefined) return { busyMs: 0, ms: 0 }
    const now = performance.now()
    const ms = now - (this.#since ?? now)
    this.#since = now
    this.#memoryBytes = valueOf('process_resident_memory_bytes', figures)
    const busyMs = ms * valueOf('nodejs_eventloop_utilization', figures)
    this.#total = { busyMs: this.#total.busyMs + busyMs, ms: this.#total.ms + ms }
    return { busyMs, ms }
  }

  /** Undefined when the server does not say: whoever drives the rollouts says better why. */
  async #figures(signal: AbortSignal | undefined): Promise<string | undefined> {
    const { url, apiKey } = this.#server
    try {
      const headers = { authorization: `Bearer ${apiKey}` }
      return await (await fetch(`${url}/metrics`, { headers, signal: signal ?? null })).text()
    } catch {
      return undefined
    }
  }
}

function valueOf(figure: string, figures: string): number {
  return Number(new RegExp(`^${figure} (\\S+)$`, 'm').exec(figures)?.[1] ?? 0)
}
