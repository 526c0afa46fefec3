import { hash } from 'node:crypto'

import type { Redis } from 'ioredis'

import type { RecordScript, ScriptValue } from './record-scripts.ts'

/**
 * Runs scripts, each of which is sent whole the first time that a connection needs it, and by its digest
 * from then on. A Redis that was restarted is another connection.
 */
export class KnownScripts {
  readonly #redis: Redis
  readonly #known = new Set<RecordScript>()

  constructor(redis: Redis) {
    this.#redis = redis
    redis.on('close', () => this.#known.clear())
  }

  async run(script: RecordScript, values: readonly ScriptValue[]): Promise<unknown> {
    if (this.#known.has(script)) {
      try {
        return await this.#redis.callBuffer('EVALSHA', digestOf(script), ...values)
      } catch (error) {
        // It was sent before Redis was restarted, or whoever operates that has scripts forgotten.
        if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      }
    }
    return this.runWhole(script, values)
  }

  /** For what must not need a second message: its process may be about to end. */
  async runWhole(script: RecordScript, values: readonly ScriptValue[]): Promise<unknown> {
    const reply = await this.#redis.callBuffer('EVAL', script, ...values)
    this.#known.add(script)
    return reply
  }
}

const digests = new Map<RecordScript, string>()

function digestOf(script: RecordScript): string {
  const known = digests.get(script)
  if (known !== undefined) return known
  const digest = hash('sha1', script)
  digests.set(script, digest)
  return digest
}
