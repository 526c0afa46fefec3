import type { LogFields, Logger } from './logger.ts'
import type { SecretValues } from './secret-values.ts'

/** Errors nest, and so do the fields of some; deeper than this nobody reads. */
const deepest = 6

/** A logger that writes to `logger` what is left of a line without the secrets in it. */
export function redactingLogger(logger: Logger, secrets: SecretValues): Logger {
  const at = (level: keyof Logger): Logger[keyof Logger] => {
    return (fields, message) => {
      try {
        logger[level](redacted(fields, secrets, 0) as LogFields, secrets.redact(message))
      } catch {
        // A log line is not worth a rollout: what user code throws may refuse to be read.
      }
    }
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function redacted(value: unknown, secrets: SecretValues, depth: number): unknown {
  if (typeof value === 'string') return secrets.redact(value)
  if (typeof value !== 'object' || value === null) {
    return typeof value === 'function' || typeof value === 'symbol' ? typeof value : value
  }
  if (depth === deepest) return '…'
  const below = (inner: unknown): unknown => redacted(inner, secrets, depth + 1)
  if (value instanceof Error) return below(describeError(value))
  if (Array.isArray(value)) return value.map(below)
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, below(inner)]))
}

// Not its other fields: errors of HTTP clients carry whole requests, headers included.
function describeError({ name, message, stack, cause }: Error): Record<string, unknown> {
  return { name, message, stack, ...(cause === undefined ? {} : { cause }) }
}
