/** What a plain JSON value was at one time, whatever becomes of it: a copy that shares its texts. */
export type JsonSnapshot =
  | string
  | number
  | boolean
  | null
  | undefined
  | readonly JsonSnapshot[]
  | { readonly [key: string]: JsonSnapshot }

const notPlain = Symbol('has a JSON form of its own, or none')

/** Takes a snapshot; undefined of what is not plain data. */
export function snapshotOf(value: object): JsonSnapshot {
  const taken = take(value)
  return taken === notPlain ? undefined : taken
}

/**
 * Whether the JSON of `value` is known to be that of the time of the snapshot. Much cheaper than
 * writing it: texts that a program passes on are the same object in memory, and are not read.
 */
export function isAsIn(snapshot: JsonSnapshot, value: unknown): boolean {
  if (typeof snapshot !== 'object' || snapshot === null) return snapshot === value
  if (typeof value !== 'object' || value === null) return false
  // Loops, because all of a long conversation goes through here with each call.
  if (isList(snapshot)) {
    if (!isList(value) || value.length !== snapshot.length) return false
    for (let n = 0; n < snapshot.length; n += 1) if (!isAsIn(snapshot[n], value[n])) return false
    return true
  }
  if (!isPlain(value)) return false
  const keys = Object.keys(snapshot)
  const own = Object.keys(value)
  if (own.length !== keys.length) return false
  for (const [n, key] of keys.entries()) {
    if (own[n] !== key || !isAsIn(snapshot[key], (value as Record<string, unknown>)[key])) {
      return false
    }
  }
  return true
}

function take(value: unknown): JsonSnapshot | typeof notPlain {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
    case 'undefined':
      return value
    case 'object':
      if (value === null) return null
      return isList(value) ? takeList(value) : takeRecord(value)
    case 'bigint':
    case 'function':
    case 'symbol':
      return notPlain
  }
}

function takeList(list: readonly unknown[]): JsonSnapshot | typeof notPlain {
  const items: JsonSnapshot[] = []
  for (const item of list) {
    const taken = take(item)
    if (taken === notPlain) return notPlain
    items.push(taken)
  }
  return items
}

function takeRecord(record: object): JsonSnapshot | typeof notPlain {
  if (!isPlain(record)) return notPlain
  // One object of the same shape, for as long as the rollout lives.
  const copy = { ...record } as Record<string, JsonSnapshot>
  for (const key of Object.keys(copy)) {
    const value = copy[key]
    const taken = take(value)
    if (taken === notPlain) return notPlain
    if (taken !== value) copy[key] = taken
  }
  return copy
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
