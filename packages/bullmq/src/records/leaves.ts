import { types } from 'node:util'

/** All that is in a value, in its order. Equal ones are of equal values; strings are shared with these. */
export type Leaves = readonly unknown[]

/** More than this is not listed. */
const mostLeaves = 100_000
const list = Symbol('list')
const fields = Symbol('fields')

/** Undefined for what is not plain data all through: others may change without a trace. */
export function leavesOf(value: unknown): Leaves | undefined {
  const leaves: unknown[] = []
  try {
    return collect(value, leaves) ? leaves : undefined
  } catch {
    // Too deep, or a field that cannot be read.
    return undefined
  }
}

/** @returns whether all of it was listed */
function collect(value: unknown, leaves: unknown[]): boolean {
  if (leaves.length > mostLeaves) return false
  if (typeof value === 'function') return false
  if (typeof value !== 'object' || value === null) {
    leaves.push(value)
    return true
  }
  if (types.isProxy(value)) return false
  if (Array.isArray(value)) {
    leaves.push(list, value.length)
    // Places that were left empty are looked at as well.
    for (const item of value) if (!collect(item, leaves)) return false
    return true
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  const names = Object.keys(value)
  leaves.push(fields, names.length)
  for (const name of names) {
    leaves.push(name)
    if (!collect((value as Record<string, unknown>)[name], leaves)) return false
  }
  return true
}
