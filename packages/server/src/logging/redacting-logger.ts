import { errorTextBytes } from '@osmosis/core/http'

import type { LogFields, Logger } from './logger.ts'
import type { SecretValues } from './secret-values.ts'

/** Errors nest, and so do the fields of some; deeper than this nobody reads. */
const deepest = 6
/** Nor more values than this: what user code throws may hold all that it has, or itself. */
const mostValues = 200
const cut = '…'

/**
 * A logger that writes to `logger` what is left of a line without the secrets in it: of each text its
 * first 8 KiB, and so many values. A log must not hold up what it is about.
 */
export function redactingLogger(logger: Logger, secrets: SecretValues): Logger {
  const at = (level: keyof Logger): Logger[keyof Logger] => {
    return (fields, message) => {
      try {
        const clean = new Line(secrets).redacted(fields) as LogFields
        logger[level](clean, secrets.redactError(message))
      } catch {
        // A log line is not worth a rollout.
      }
    }
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** What has been written of one line. */
class Line {
  readonly #secrets: SecretValues
  #left = mostValues

  constructor(secrets: SecretValues) {
    this.#secrets = secrets
  }

  redacted(value: unknown, depth = 0): unknown {
    this.#left -= 1
    if (typeof value === 'string') return this.#secrets.redactError(value)
    if (typeof value !== 'object' || value === null) {
      return typeof value === 'function' || typeof value === 'symbol' ? typeof value : value
    }
    if (depth === deepest) return cut
    try {
      if (value instanceof Error) return this.redacted(describeError(value), depth + 1)
      if (Array.isArray(value)) return this.#list(value, depth)
      if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`
      return this.#record(value, depth)
    } catch {
      // What user code throws may refuse it; the rest of the line counts all the same.
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

  /** Names can be secrets, too: of something that is kept by key, for example. */
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

// Not its other fields: errors of HTTP clients carry whole requests, headers included. A stack begins
// with the message, so that of a long one has nothing to add before it is cut, and is as long.
function describeError(error: Error): Record<string, unknown> {
  const { name, message, cause } = error
  const stack = message.length < errorTextBytes ? { stack: error.stack } : {}
  return { name, message, ...stack, ...(cause === undefined ? {} : { cause }) }
}
