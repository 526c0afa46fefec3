import { isOsmosisError } from '@osmosis/core'
import { errorTextBytes } from '@osmosis/core/http'
import type { SecretValues } from '@osmosis/protocol/http'

import type { LogFields, Logger } from './logger.ts'

/** Maximum depth of nested errors and fields. */
const maxDepth = 6
/** Maximum number of values in a line: a thrown value may contain itself, or all data of the user. */
const maxValues = 200
const cut = '…'

/**
 * A logger that removes secrets, then writes to `logger`. It keeps the first 8 KiB of each text and a limited
 * number of values, because logging must not block the server.
 */
export function redactingLogger(logger: Logger, secrets: SecretValues): Logger {
  const at = (level: keyof Logger): Logger[keyof Logger] => {
    return (fields, message) => {
      try {
        const clean = new Line(secrets).redacted(fields) as LogFields
        logger[level](clean, secrets.redactError(message))
      } catch {
        // A log line must not fail a rollout.
      }
    }
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** Redacts one line, and counts its values. */
class Line {
  readonly #secrets: SecretValues
  #left = maxValues

  constructor(secrets: SecretValues) {
    this.#secrets = secrets
  }

  redacted(value: unknown, depth = 0): unknown {
    this.#left -= 1
    if (typeof value === 'string') return this.#secrets.redactError(value)
    if (typeof value !== 'object' || value === null) {
      return typeof value === 'function' || typeof value === 'symbol' ? typeof value : value
    }
    if (depth === maxDepth) return cut
    try {
      if (value instanceof Error) return this.redacted(describeError(value), depth + 1)
      if (Array.isArray(value)) return this.#list(value, depth)
      if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`
      return this.#record(value, depth)
    } catch {
      // A thrown value may refuse to be read; the rest of the line is still logged.
      return '[cannot be read]'
    }
  }

  #list(values: readonly unknown[], depth: number): unknown[] {
    const clean: unknown[] = []
    for (const value of values) {
      clean.push(this.#left > 0 ? this.redacted(value, depth + 1) : cut)
      if (this.#left <= 0) break
    }
    return clean
  }

  /** Names can be secrets, too: for example those of a map by key. */
  #record(values: object, depth: number): Record<string, unknown> {
    const clean: [string, unknown][] = []
    for (const name of Object.keys(values)) {
      if (this.#left <= 0) {
        clean.push([cut, cut])
        break
      }
      const value = this.redacted((values as Record<string, unknown>)[name], depth + 1)
      clean.push([this.#secrets.redactError(name), value])
    }
    return Object.fromEntries(clean)
  }
}

// Other fields are omitted: errors of HTTP clients contain whole requests, headers included. A stack starts
// with the message, so the stack of a long message would add nothing before it is cut.
function describeError(error: Error): Record<string, unknown> {
  const { name, message, cause } = error
  const code = isOsmosisError(error) ? { code: error.code } : {}
  const stack = message.length < errorTextBytes ? { stack: error.stack } : {}
  return { name, ...code, message, ...stack, ...(cause === undefined ? {} : { cause }) }
}
