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
 * The value as it can be given to another process. Plain data, dates, maps, sets and bytes stay what
 * they are, also where JSON would lose them; everything else becomes what JSON would make of it:
 * functions are left out, an instance of a class is its `toJSON()` or its fields. What needs no
 * change is not copied.
 *
 * @throws RangeError for what is nested too deeply
 */
export function portable(value: unknown): unknown {
  const result = new Reduction().value(value)
  return result === nothing ? undefined : result
}

/**
 * Sends samples as they are, as far as that can be done. Conversations and fields are given up first,
 * because they can be nested too deeply or hold what cannot be cloned, then the model calls: the
 * outcome is needed in any case.
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
  /** What has been seen, so that cycles end and an object that is used twice stays one. */
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

  /** Null for what is left out: the others keep their places. */
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
      // Read once: what a getter gives now, it may refuse later.
      const sent = isGetter
        ? this.#read(fields, () => (fields as Record<string, unknown>)[key])
        : this.value(property?.value)
      if (isGetter || sent !== property?.value) changed = true
      if (sent !== nothing) entries.push([key, sent])
    }
    return changed ? Object.fromEntries(entries) : fields
  }

  /** What code of the user's gives; nothing when it throws. */
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

/** Bytes that other threads have as well, or that were given away, cannot be cloned. */
function isOwnBytes({ buffer }: ArrayBufferView): boolean {
  return types.isArrayBuffer(buffer) && !buffer.detached
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
