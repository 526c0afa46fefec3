import { isJsonObject } from '../../http/json.ts'

/** Texts that servers send in pieces. */
const textFields = new Set(['content', 'data', 'reasoning', 'summary', 'text', 'thinking'])

/**
 * Objects and lists that were made here. Only they are changed: others are part of chunks, which readers have as well.
 * An answer may add 100,000 fields to one object, so that it must not be copied for each.
 */
const made = new WeakSet<object>()
/** Where the items of a list that was made here stand, by their `index`. */
const places = new WeakMap<readonly unknown[], Map<unknown, number>>()

/**
 * Adds the fields of a delta that the SDK does not know, such as `reasoning_details` or `extra_content`, to what an
 * answer has of them so far: texts are appended, lists by the `index` of their items, and objects field by field.
 * Of everything else the latest value counts. Nulls say nothing.
 */
export function addFields(known: object, more: object): void {
  const fields = known as Record<string, unknown>
  for (const [key, value] of Object.entries(more)) {
    if (value === null || value === undefined || key === '__proto__') continue
    fields[key] = joined(fields[key], value, key)
  }
}

function joined(known: unknown, more: unknown, key: string): unknown {
  if (typeof known === 'string' && typeof more === 'string') {
    return textFields.has(key) ? known + more : more
  }
  if (Array.isArray(known) && Array.isArray(more)) return joinedLists(known, more)
  if (isJsonObject(known) && isJsonObject(more)) {
    const both = made.has(known) ? known : { ...known }
    made.add(both)
    addFields(both, more)
    return both
  }
  return more
}

function joinedLists(known: unknown[], more: readonly unknown[]): unknown[] {
  const list = made.has(known) ? known : [...known]
  made.add(list)
  const at = placesIn(list)
  for (const item of more) {
    const index = isJsonObject(item) ? item['index'] : undefined
    const place = index === undefined ? undefined : at.get(index)
    if (place !== undefined) {
      list[place] = joined(list[place], item, '')
      continue
    }
    if (index !== undefined) at.set(index, list.length)
    list.push(item)
  }
  return list
}

/** The first item of each index counts. */
function placesIn(list: readonly unknown[]): Map<unknown, number> {
  const known = places.get(list)
  if (known !== undefined) return known
  const at = new Map<unknown, number>()
  for (const [place, item] of list.entries()) {
    const index = isJsonObject(item) ? item['index'] : undefined
    if (index !== undefined && !at.has(index)) at.set(index, place)
  }
  places.set(list, at)
  return at
}
