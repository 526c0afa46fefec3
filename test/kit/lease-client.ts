import { setTimeout as sleep } from 'node:timers/promises'

/** The answer of a poll, as text and parsed. */
export interface PolledResult {
  readonly text: string
  readonly status: string
  readonly sample: { reward: number | null; messages: unknown[] } | null
  readonly err_message: string | null
  readonly err_category: string | null
}

export interface LeaseClientOptions {
  readonly url: string
  readonly apiKey?: string | undefined
  /** Added to the wait of the server: how long a poll may take. Seconds. */
  readonly marginSeconds?: number
  /** What happens to a poll, by the number of failures before it: it is not sent, or its answer is lost. */
  readonly fault?: (failures: number) => 'unsent' | 'lost' | undefined
}

const terminal = new Set(['success', 'failure', 'cancelled'])
const pauses = [0.1, 0.5]

/** A minimal caller of leased rollouts, which only does what the protocol requires. */
export class LeaseClient {
  readonly options: LeaseClientOptions

  constructor(options: LeaseClientOptions) {
    this.options = options
  }

  get headers(): Record<string, string> {
    const { apiKey } = this.options
    return {
      'content-type': 'application/json',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    }
  }

  /** Posts once, and again only after 429. */
  async start(body: Record<string, unknown>): Promise<LeaseHandle> {
    for (;;) {
      const answer = await fetch(`${this.options.url}/rollout`, {
        method: 'POST',
        headers: this.headers,
        body: JSON.stringify(body),
        redirect: 'error',
      })
      if (answer.status === 202) {
        const accepted = (await answer.json()) as AcceptedLease
        if (accepted.rollout_id !== body['rollout_id']) throw new Error('another rollout_id')
        return new LeaseHandle(this, accepted)
      }
      await answer.body?.cancel()
      if (answer.status !== 429) throw new Error(`POST /rollout: ${answer.status}`)
      const seconds = Number(answer.headers.get('retry-after') ?? 1)
      await sleep(Math.min(Math.max(seconds, 0.05), 60) * 1000)
    }
  }

  async cancel(selector: Record<string, unknown>): Promise<Record<string, string>> {
    const answer = await fetch(`${this.options.url}/rollout/cancel`, {
      method: 'POST',
      headers: this.headers,
      body: JSON.stringify(selector),
    })
    return ((await answer.json()) as { dispositions: Record<string, string> }).dispositions
  }
}

export interface AcceptedLease {
  readonly rollout_id: string
  readonly status: 'queued'
  readonly polling_lease_token: string
  readonly result_wait_timeout_sec: number
  readonly polling_lease_timeout_sec: number
}

export class LeaseHandle {
  readonly accepted: AcceptedLease
  readonly #client: LeaseClient
  #lastGood = performance.now()

  constructor(client: LeaseClient, accepted: AcceptedLease) {
    this.#client = client
    this.accepted = accepted
  }

  /** Polls until `enough`, by default until the end. */
  async until(enough: (status: string) => boolean = () => false): Promise<PolledResult> {
    for (;;) {
      const result = await this.#pollWithRetries()
      if (terminal.has(result.status) || enough(result.status)) return result
    }
  }

  /** Requests the result or the status once and without faults. */
  async once(): Promise<PolledResult> {
    const text = await (await this.read()).text()
    return { ...(JSON.parse(text) as PolledResult), text }
  }

  /** Sends one request without faults. */
  async read(signal?: AbortSignal, token = this.accepted.polling_lease_token): Promise<Response> {
    const { url } = this.#client.options
    return fetch(`${url}/rollout/${encodeURIComponent(this.accepted.rollout_id)}/result`, {
      headers: { ...this.#client.headers, 'X-Osmosis-Rollout-Lease': token },
      redirect: 'error',
      signal: signal ?? null,
    })
  }

  async #pollWithRetries(): Promise<PolledResult> {
    for (let failures = 0; ; failures += 1) {
      try {
        return await this.#poll(failures)
      } catch (error) {
        const pause = pauses[failures]
        if (error instanceof Unexpected || pause === undefined) throw error
        const leaseMs = this.accepted.polling_lease_timeout_sec * 1000
        const latest = this.#lastGood + leaseMs - this.#timeoutMs - pause * 1000
        if (performance.now() > latest) throw error
        await sleep(pause * 1000)
      }
    }
  }

  async #poll(failures: number): Promise<PolledResult> {
    const fault = this.#client.options.fault?.(failures)
    if (fault === 'unsent') throw new Error('connection refused')
    const began = performance.now()
    const answer = await this.read(AbortSignal.timeout(this.#timeoutMs))
    const text = await answer.text()
    if (fault === 'lost') throw new Error('connection reset')
    if (answer.status !== 200) throw new Unexpected(`${answer.status} ${text}`)
    const body = JSON.parse(text) as PolledResult & { rollout_id: string }
    if (body.rollout_id !== this.accepted.rollout_id) throw new Unexpected('another rollout_id')
    this.#lastGood = began
    return { ...body, text }
  }

  get #timeoutMs(): number {
    const { marginSeconds = 10 } = this.#client.options
    return (this.accepted.result_wait_timeout_sec + marginSeconds) * 1000
  }
}

/** An answer that a caller does not ask again for. */
class Unexpected extends Error {}
