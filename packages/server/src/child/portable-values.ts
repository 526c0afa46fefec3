import { types } from 'node:util'

import type { RolloutSample } from '@osmosis/core'

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
 * becomes its `toJSON()` or its fields. The result shares no list, map, set or record with the value.
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
  /** What each object becomes, so that cycles end and an object that is used twice stays one object. */
  readonly #known = new Map<object, unknown>()
  #depth = 0

  value(value: unknown): unknown {
    if (typeof value === 'function' || typeof value === 'symbol') return nothing
    if (typeof value !== 'object' || value === null) return value
    if (this.#known.has(value)) return this.#known.get(value)
    if (this.#depth === deepest) throw new RangeError('nested too deeply to be sent')
    this.#depth += 1
    const result = this.#object(value)
    this.#depth -= 1
    return result
  }

  #object(value: object): unknown {
    if (Array.isArray(value)) return this.#list(value)
    if (types.isMap(value)) return this.#map(value)
    if (types.isSet(value)) return this.#set(value)
    if (types.isDate(value)) return value
    if (ArrayBuffer.isView(value)) return isOwnBytes(value) ? value : nothing
    const { toJSON } = value as { toJSON?: unknown }
    if (typeof toJSON !== 'function') return this.#fields(value)
    // What the object becomes is not known yet: it is left out where its own `toJSON()` returns a part that contains it.
    this.#known.set(value, nothing)
    const given = read(() => toJSON.call(value) as unknown)
    if (given === value) return this.#fields(value)
    const sent = this.value(given)
    this.#known.set(value, sent)
    return sent
  }

  /** Null for what is left out, so that the others stay in place. */
  #list(items: readonly unknown[]): unknown[] {
    const list = this.#begin<unknown[]>(items, [])
    for (const item of items) list.push(orNull(this.value(item)))
    return list
  }

  #map(map: ReadonlyMap<unknown, unknown>): Map<unknown, unknown> {
    const sent = this.#begin(map, new Map<unknown, unknown>())
    for (const [key, item] of map) {
      const entry = [this.value(key), this.value(item)] as const
      if (!entry.includes(nothing)) sent.set(...entry)
    }
    return sent
  }

  #set(set: ReadonlySet<unknown>): Set<unknown> {
    const sent = this.#begin(set, new Set<unknown>())
    for (const item of set) sent.add(orNull(this.value(item)))
    return sent
  }

  #fields(fields: object): object {
    const sent = this.#begin<Record<string, unknown>>(fields, {})
    for (const key of Object.keys(fields)) {
      const value = this.value(read(() => (fields as Record<string, unknown>)[key]))
      if (value === nothing) continue
      // Assigning is several times faster, but does not make a field with this name.
      if (key === '__proto__') Object.defineProperty(sent, key, { value, ...ofField })
      else sent[key] = value
    }
    return sent
  }

  /** Notes the copy of an object before it is filled, because a part of the object may refer to it. */
  #begin<T extends object>(original: object, copy: T): T {
    this.#known.set(original, copy)
    return copy
  }
}

const ofField = { configurable: true, enumerable: true, writable: true }

/** The value that user code gives; it is left out when the code throws. */
function read(get: () => unknown): unknown {
  try {
    return get()
  } catch {
    return nothing
  }
}

function orNull(value: unknown): unknown {
  return value === nothing ? null : value
}

/** Bytes that are shared with other threads, or were transferred, cannot be cloned. */
function isOwnBytes({ buffer }: ArrayBufferView): boolean {
  return types.isArrayBuffer(buffer) && !buffer.detached
}
