import { errorMessage } from '@osmosis/core'
import { createTransport, startTimer, withTimeLimit, type Transport } from '@osmosis/core/http'
import type { RolloutRequest } from '@osmosis/protocol'
import { boundedText } from '@osmosis/protocol/http'
import type { RolloutStatus } from '@osmosis/protocol/wire'

import type { Logger } from '../logging/logger.ts'

/** Where the server reports which rollouts it has. */
export interface OwnershipOptions {
  /** Base URL of an OTLP/HTTP collector; `/v1/logs` is appended. */
  readonly endpoint: string
  readonly serverId: string
  readonly serverName: string
  readonly namespace?: string | undefined
}

const maxWaiting = 1024
const batchSize = 128
const pauseMs = 1000
const limitMs = 3000
/** Bytes of an answer, whose content is ignored. */
const maxAnswerBytes = 64 * 1024
/** Characters of the caller's fields about its run. */
const maxFieldLength = 512
/** The severity number INFO of OTLP. */
const info = 9

/**
 * Reports each state of each rollout to a collector, so that a platform knows which server has it. Best
 * effort: records that cannot be sent, or are too many, are dropped, and no rollout waits for them.
 */
export class OwnershipLog {
  readonly #options: OwnershipOptions
  readonly #logger: Logger
  readonly #url: string
  readonly #transport: Transport
  #waiting: object[] = []
  #timer: NodeJS.Timeout | undefined
  readonly #closing = new AbortController()
  #sending: Promise<void> = Promise.resolve()
  #warned = false

  constructor(options: OwnershipOptions, logger: Logger) {
    this.#options = options
    this.#logger = logger
    this.#url = `${options.endpoint.replace(/\/+$/, '')}/v1/logs`
    this.#transport = createTransport({
      name: 'collector',
      codes: { unreachable: 'protocol_error', refused: 'protocol_error' },
    })
  }

  /** Starts reporting a rollout: call the returned function with each state. */
  begin({
    rolloutId,
    metadata,
  }: Pick<RolloutRequest, 'rolloutId' | 'metadata'>): (status: RolloutStatus) => void {
    const { run_id, run_name } = Object(metadata?.['osmosis_observability']) as Record<
      string,
      unknown
    >
    const { serverId, serverName, namespace } = this.#options
    let sequence = 0
    return (status) => {
      sequence += 1
      this.#add({
        event: 'rollout.ownership',
        rollout_id: rolloutId,
        server_id: serverId,
        server_name: serverName,
        namespace,
        run_id: shortText(run_id),
        run_name: shortText(run_name),
        status,
        event_sequence: sequence,
      })
    }
  }

  /** Sends the remaining records, within three seconds. */
  async close(): Promise<void> {
    const timer = startTimer(limitMs, () => this.#closing.abort(late()))
    this.#send()
    await this.#sending
    timer.clear()
    await this.#transport.close()
  }

  #add(fields: Readonly<Record<string, string | number | undefined>>): void {
    if (this.#waiting.length === maxWaiting) return
    this.#waiting.push({
      timeUnixNano: `${Date.now()}000000`,
      severityNumber: info,
      severityText: 'INFO',
      body: { stringValue: 'Rollout ownership' },
      attributes: toAttributes(fields),
    })
    if (this.#waiting.length >= batchSize) this.#send()
    else this.#timer ??= setTimeout(() => this.#send(), pauseMs).unref()
  }

  /** One request after the other, which preserves the order of the states. */
  #send(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const before = this.#sending
    this.#sending = (async () => {
      await before
      while (this.#waiting.length > 0 && !this.#closing.signal.aborted) {
        await this.#post(this.#waiting.splice(0, batchSize))
      }
    })()
  }

  async #post(logRecords: readonly object[]): Promise<void> {
    const resource = { attributes: toAttributes({ 'service.name': 'osmosis-rollout-server' }) }
    const scopeLogs = [{ scope: { name: '@osmosis/server' }, logRecords }]
    const body = JSON.stringify({ resourceLogs: [{ resource, scopeLogs }] })
    const headers = { 'content-type': 'application/json' }
    const limit = { limitMs, outer: this.#closing.signal, late }
    try {
      await withTimeLimit(limit, async (signal) => {
        const answer = await this.#transport.post(this.#url, { headers, body, signal })
        await boundedText(answer.body, maxAnswerBytes)
      })
    } catch (error) {
      if (this.#warned) return
      this.#warned = true
      this.#logger.warn(
        { error },
        `the ownership of rollouts is not reported: ${errorMessage(error)}`,
      )
    }
  }
}

function late(): Error {
  return new Error(`no answer in ${limitMs} ms`)
}

function shortText(value: unknown): string | undefined {
  return typeof value === 'string' ? value.slice(0, maxFieldLength) : undefined
}

function toAttributes(fields: Readonly<Record<string, string | number | undefined>>): object[] {
  return Object.entries(fields).flatMap(([key, value]) => {
    if (value === undefined) return []
    const text = String(value)
    return [{ key, value: typeof value === 'number' ? { intValue: text } : { stringValue: text } }]
  })
}
