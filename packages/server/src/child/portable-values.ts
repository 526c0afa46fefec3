import { types } from 'node:util'

import { errorMessage, isOsmosisError, OsmosisError, type RolloutSample } from '@osmosis/core'
import { beginningOf, longErrorTextBytes } from '@osmosis/core/http'

/** Encoding values nested deeper than this overflows the stack. */
const deepest = 1000

/** Whether decoding it may overflow the stack of a worker. */
export function isTooDeep(value: unknown, levels = deepest): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((inner) => isTooDeep(inner, levels - 1))
}

const nothing = Symbol('left out')

/**
 * The value in a form that can be sent to another process. Plain data, dates, maps, sets and bytes are
 * preserved; everything else is converted as by JSON: functions are left out, and an instance of a class
 * becomes its `toJSON()` or its fields. Values that need no change are not copied.
 *
 * @throws RangeError when the value is nested too deeply
 */
export function portable(value: unknown): unknown {
  const result = new Reduction().value(value)
  return result === nothing ? undefined : result
}

/**
 * Sends samples as completely as possible, because the outcome must arrive in any case. Conversations and
 * fields, which can be nested too deeply or impossible to clone, are dropped first, then the model calls.
 */
export function sendSamples<T>(
  samples: ReadonlyMap<string, RolloutSample>,
  send: (samples: readonly RolloutSample[]) => T,
): T {
  const all = [...samples.values()]
  const bare = { messages: [], trajectoryMessages: null, metrics: {}, extraFields: {} }
  try {
    return send(all.map((sample) => portable(sample) as RolloutSample))
  } catch {
    try {
      return send(all.map((sample) => portable({ ...sample, ...bare }) as RolloutSample))
    } catch {
      return send(all.map((sample) => ({ ...sample, ...bare, calls: [] })))
    }
  }
}

class Reduction {
  /** Objects so far, so that cycles end and an object that is used twice stays one object. */
  readonly #known = new Map<object, unknown>()
  #depth = 0

  value(value: unknown): unknown {
    if (typeof value === 'function' || typeof value === 'symbol') return nothing
    if (typeof value !== 'object' || value === null) return value
    if (this.#known.has(value)) return this.#known.get(value)
    if (this.#depth === deepest) throw new RangeError('nested too deeply to be sent')
    this.#known.set(value, value)
    this.#depth += 1
    const result = this.#object(value)
    this.#depth -= 1
    if (result !== value) this.#known.set(value, result)
    return result
  }

  #object(value: object): unknown {
    // A proxy looks like its target, and cannot be cloned.
    const mustCopy = types.isProxy(value)
    if (Array.isArray(value)) return this.#list(value, mustCopy)
    if (types.isMap(value)) return this.#map(value)
    if (types.isSet(value)) return new Set(this.#list([...value], true))
    if (types.isDate(value)) return value
    if (ArrayBuffer.isView(value)) return isOwnBytes(value) ? value : nothing
    const { toJSON } = value as { toJSON?: unknown }
    if (typeof toJSON === 'function') return this.#read(value, toJSON as () => unknown)
    return this.#fields(value, mustCopy || !isPlain(value))
  }

  /** Null for what is left out, so that the others stay in place. */
  #list(items: readonly unknown[], mustCopy: boolean): readonly unknown[] {
    let changed = mustCopy
    const list = Array.from(items, (item) => {
      const sent = this.value(item)
      if (sent !== item) changed = true
      return sent === nothing ? null : sent
    })
    return changed ? list : items
  }

  #map(map: ReadonlyMap<unknown, unknown>): Map<unknown, unknown> {
    const entries = [...map].map(([key, item]) => [this.value(key), this.value(item)] as const)
    return new Map(entries.filter(([key, item]) => key !== nothing && item !== nothing))
  }

  #fields(fields: object, mustCopy: boolean): object {
    let changed = mustCopy
    const entries: [string, unknown][] = []
    for (const key of Object.keys(fields)) {
      const property = Object.getOwnPropertyDescriptor(fields, key)
      const isGetter = property?.get !== undefined
      // Read once, because a getter may throw the next time.
      const sent = isGetter
        ? this.#read(fields, () => (fields as Record<string, unknown>)[key])
        : this.value(property?.value)
      if (isGetter || sent !== property?.value) changed = true
      if (sent !== nothing) entries.push([key, sent])
    }
    return changed ? Object.fromEntries(entries) : fields
  }

  /** The value of a getter of user code; nothing when it throws. */
  #read(of: object, get: () => unknown): unknown {
    let given: unknown
    try {
      given = get.call(of)
    } catch {
      return nothing
    }
    return this.value(given)
  }
}

/** Bytes that are shared with other threads, or were transferred, cannot be cloned. */
function isOwnBytes({ buffer }: ArrayBufferView): boolean {
  return types.isArrayBuffer(buffer) && !buffer.detached
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

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
