import { errorTextBytes } from '@osmosis/core/http'

import type { LogFields, Logger } from './logger.ts'
import type { SecretValues } from './secret-values.ts'

/** Errors nest, and so do the fields of some; deeper than this nobody reads. */
const deepest = 6

/**
 * A logger that writes to `logger` what is left of a line without the secrets in it, and of each text
 * its first 8 KiB: a log must not hold up what it is about.
 */
export function redactingLogger(logger: Logger, secrets: SecretValues): Logger {
  const at = (level: keyof Logger): Logger[keyof Logger] => {
    return (fields, message) => {
      try {
        const clean = redacted(fields, secrets, 0) as LogFields
        logger[level](clean, secrets.redactError(message))
      } catch {
        // A log line is not worth a rollout.
      }
    }
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function redacted(value: unknown, secrets: SecretValues, depth: number): unknown {
  if (typeof value === 'string') return secrets.redactError(value)
  if (typeof value !== 'object' || value === null) {
    return typeof value === 'function' || typeof value === 'symbol' ? typeof value : value
  }
  if (depth === deepest) return '…'
  const below = (inner: unknown): unknown => redacted(inner, secrets, depth + 1)
  try {
    if (value instanceof Error) return below(describeError(value))
    if (Array.isArray(value)) return value.map(below)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, below(inner)]))
  } catch {
    // What user code throws may refuse it; the rest of the line counts all the same.
    return '[cannot be read]'
  }
}

// Not its other fields: errors of HTTP clients carry whole requests, headers included. A stack begins
// with the message, so that of a long one has nothing to add before it is cut, and is as long.
function describeError(error: Error): Record<string, unknown> {
  const { name, message, cause } = error
  const stack = message.length < errorTextBytes ? { stack: error.stack } : {}
  return { name, message, ...stack, ...(cause === undefined ? {} : { cause }) }
}
