import { createHash } from 'node:crypto'
import { appendFile, mkdir } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage } from '@osmosis/core'
import { toTelemetryJson } from '@osmosis/protocol/http'
import type { ServerServices } from '@osmosis/server/protocols'

/**
 * The trace of one rollout: JSON lines in its own file, written in the background. Errors do not affect
 * the rollout: the trace ends with the first one, because a part of a line may be in the file.
 */
export class EventTrace {
  readonly #services: Pick<ServerServices, 'secrets' | 'logger'>
  readonly #rolloutId: string
  readonly #file: string
  #sequence = 0
  #pending: string[] = []
  #hasFailed = false
  #writing: Promise<void> | undefined

  constructor(
    folder: string,
    rolloutId: string,
    services: Pick<ServerServices, 'secrets' | 'logger'>,
  ) {
    this.#services = services
    this.#rolloutId = rolloutId
    this.#file = path.join(folder, traceFileName(rolloutId))
  }

  log(event: string, data: Readonly<Record<string, unknown>>): void {
    if (this.#hasFailed) return
    // Data cannot overwrite the fields of the line itself.
    const line = JSON.stringify({
      event,
      rollout_id: this.#rolloutId,
      time: new Date().toISOString(),
      sequence: this.#sequence,
      ...withoutReserved(toTelemetryJson(data, new Set())),
    })
    this.#sequence += 1
    this.#pending.push(`${this.#services.secrets.redact(line)}\n`)
    this.#writing ??= this.#write()
  }

  /** Resolves when everything logged so far is in the file. Never rejects. */
  async flushed(): Promise<void> {
    await this.#writing
  }

  async #write(): Promise<void> {
    try {
      await mkdir(path.dirname(this.#file), { recursive: true })
      while (this.#pending.length > 0) {
        const lines = this.#pending.splice(0).join('')
        await appendFile(this.#file, lines)
      }
    } catch (error) {
      this.#hasFailed = true
      this.#pending = []
      this.#services.logger.warn(
        { rollout_id: this.#rolloutId, file: this.#file },
        `the trace cannot be written: ${errorMessage(error)}`,
      )
    } finally {
      this.#writing = undefined
    }
  }
}

const reserved = new Set(['event', 'rollout_id', 'time', 'sequence'])

function withoutReserved(data: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [reserved.has(key) ? `data_${key}` : key, value]),
  )
}

/** The id itself if that is a safe file name, else a name derived from it. */
function traceFileName(rolloutId: string): string {
  if (/^\w[\w.-]{0,199}$/.test(rolloutId)) return `${rolloutId}.jsonl`
  const readable = rolloutId.replaceAll(/[^\w-]+/g, '_').slice(0, 60)
  const digest = createHash('sha256').update(rolloutId).digest('hex').slice(0, 16)
  return `${readable}-${digest}.jsonl`
}
