import { isJsonObject } from '@osmosis/core/http'

/** Deeper nesting is not telemetry, and would overflow the encoder's stack. */
const deepest = 100

const nothing = Symbol('no JSON form')

/**
 * Metrics or extra fields of a sample as JSON data. Values with an obvious JSON form are converted (dates,
 * maps, sets, typed arrays, safe big integers); values without one are left out.
 *
 * @param dropped - receives the kind of everything that was left out
 */
export function toTelemetryJson(value: unknown, dropped: Set<string>): Record<string, unknown> {
  const json = new TelemetryEncoder(dropped).encode(value)
  return isJsonObject(json) ? json : {}
}

class TelemetryEncoder {
  readonly #dropped: Set<string>
  readonly #path = new Set<object>()

  constructor(dropped: Set<string>) {
    this.#dropped = dropped
  }

  encode(value: unknown): unknown {
    switch (typeof value) {
      case 'string':
      case 'boolean':
        return value
      case 'number':
        return Number.isFinite(value) ? value : this.#drop('non-finite number')
      case 'bigint':
        return Number.isSafeInteger(Number(value)) ? Number(value) : this.#drop('bigint')
      case 'undefined':
        return nothing
      case 'function':
      case 'symbol':
        return this.#drop(typeof value)
      case 'object':
        return value === null ? null : this.#nested(value)
    }
  }

  #nested(value: object): unknown {
    if (this.#path.has(value)) return this.#drop('cycle')
    if (this.#path.size === deepest) return this.#drop('deep nesting')
    this.#path.add(value)
    try {
      return this.#object(value)
    } catch {
      // A getter or toJSON of a class of user code.
      return this.#drop('object that cannot be read')
    } finally {
      this.#path.delete(value)
    }
  }

  #object(value: object): unknown {
    if (Array.isArray(value)) return this.#list(value)
    if (value instanceof Set) return this.#list([...value])
    if (value instanceof Map) return this.#record([...value])
    if (value instanceof Date) {
      return Number.isNaN(value.getTime()) ? this.#drop('invalid date') : value.toISOString()
    }
    if (ArrayBuffer.isView(value)) {
      return Symbol.iterator in value
        ? this.#list([...(value as Iterable<unknown>)])
        : this.#drop('binary data')
    }
    const { toJSON } = value as { toJSON?: unknown }
    if (typeof toJSON === 'function') return this.encode(toJSON.call(value))
    return this.#record(this.#readable(value))
  }

  /** A getter that throws only drops its own field. */
  #readable(value: object): [string, unknown][] {
    return Object.keys(value).flatMap((key): [string, unknown][] => {
      try {
        return [[key, (value as Record<string, unknown>)[key]]]
      } catch {
        this.#drop('field that cannot be read')
        return []
      }
    })
  }

  // Null for what is left out, so that the others stay in place.
  #list(items: readonly unknown[]): unknown[] {
    return items.map((item) => {
      const json = this.encode(item)
      return json === nothing ? null : json
    })
  }

  #record(entries: readonly (readonly [unknown, unknown])[]): Record<string, unknown> {
    const fields: [string, unknown][] = []
    for (const [key, inner] of entries) {
      if (typeof key !== 'string' && typeof key !== 'number') {
        this.#drop(`key of type ${typeof key}`)
        continue
      }
      const json = this.encode(inner)
      if (json !== nothing) fields.push([String(key), json])
    }
    return Object.fromEntries(fields)
  }

  #drop(kind: string): typeof nothing {
    this.#dropped.add(kind)
    return nothing
  }
}
