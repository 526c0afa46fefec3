import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { beginningOf, longErrorTextBytes } from '@osmosis/core/http'

import { portable } from './portable-values.ts'

/** A thrown value, in a form that any process can read. */
export type SentError =
  | { readonly value: unknown }
  | {
      readonly name: string
      readonly message: string
      readonly stack: string
      /** Of an OsmosisError, its fields. */
      readonly osmosis?: Pick<OsmosisError, 'code' | 'status' | 'retryAfterMs' | 'shouldRetry'>
      readonly cause?: SentError
    }

/** Deeper causes add no information, and may be a cycle. */
const deepestCause = 8

/** Never throws. */
export function sendError(thrown: unknown): SentError {
  try {
    return sentWith(thrown, 0)
  } catch {
    // Getters and proxies are user code as well, and may throw.
    return { value: errorMessage(thrown) }
  }
}

function sentWith(thrown: unknown, depth: number): SentError {
  if (!(thrown instanceof Error)) return { value: portable(thrown) }
  const { cause } = thrown
  return {
    name: text(thrown.name),
    message: text(thrown.message),
    stack: text(thrown.stack),
    ...(isOsmosisError(thrown) ? { osmosis: fieldsOf(thrown) } : {}),
    ...(cause === undefined || depth === deepestCause ? {} : { cause: sentWith(cause, depth + 1) }),
  }
}

/** Restores the error, as an OsmosisError if it was one, otherwise with its name and stack. */
export function receiveError(sent: SentError): unknown {
  if ('value' in sent) return sent.value
  const options = sent.cause === undefined ? {} : { cause: receiveError(sent.cause) }
  const error = sent.osmosis
    ? new OsmosisError(sent.osmosis.code, sent.message, {
        ...definedFields(sent.osmosis),
        ...options,
      })
    : new Error(sent.message, options)
  if (sent.osmosis === undefined) Object.defineProperty(error, 'name', { value: sent.name })
  return Object.defineProperty(error, 'stack', { value: sent.stack })
}

function fieldsOf(error: OsmosisError): Extract<SentError, { name: string }>['osmosis'] & {} {
  const { code, status, retryAfterMs, shouldRetry } = error
  return portable({ code, status, retryAfterMs, shouldRetry }) as ReturnType<typeof fieldsOf>
}

function definedFields({
  status,
  retryAfterMs,
  shouldRetry,
}: Pick<OsmosisError, 'status' | 'retryAfterMs' | 'shouldRetry'>): ConstructorParameters<
  typeof OsmosisError
>[2] {
  return { retryAfterMs, shouldRetry, ...(status === undefined ? {} : { status }) }
}

/** User code may put any value into the fields of an error; long text is truncated. */
function text(value: unknown): string {
  return typeof value === 'string' ? beginningOf(value, longErrorTextBytes) : ''
}
