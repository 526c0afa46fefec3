/** What a plain JSON value was at one time, whatever becomes of it. Its texts are shared, not copied. */
export type JsonSnapshot =
  | string
  | number
  | boolean
  | null
  | undefined
  | SnapshotList
  | SnapshotRecord

interface SnapshotList {
  readonly items: readonly JsonSnapshot[]
}

interface SnapshotRecord {
  readonly keys: readonly string[]
  readonly values: readonly JsonSnapshot[]
}

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
  if ('items' in snapshot) {
    const { items } = snapshot
    if (!Array.isArray(value) || value.length !== items.length) return false
    for (let n = 0; n < items.length; n += 1) if (!isAsIn(items[n], value[n])) return false
    return true
  }
  if (!isPlain(value)) return false
  const { keys, values } = snapshot
  const own = Object.keys(value)
  if (own.length !== keys.length) return false
  for (const [n, key] of keys.entries()) {
    if (own[n] !== key || !isAsIn(values[n], (value as Record<string, unknown>)[key])) return false
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
      return Array.isArray(value) ? takeList(value) : takeRecord(value)
    case 'bigint':
    case 'function':
    case 'symbol':
      return notPlain
  }
}

function takeList(list: readonly unknown[]): SnapshotList | typeof notPlain {
  const items: JsonSnapshot[] = []
  for (const item of list) {
    const taken = take(item)
    if (taken === notPlain) return notPlain
    items.push(taken)
  }
  return { items }
}

function takeRecord(record: object): SnapshotRecord | typeof notPlain {
  if (!isPlain(record)) return notPlain
  const keys = Object.keys(record)
  const values: JsonSnapshot[] = []
  for (const key of keys) {
    const taken = take((record as Record<string, unknown>)[key])
    if (taken === notPlain) return notPlain
    values.push(taken)
  }
  return { keys, values }
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
