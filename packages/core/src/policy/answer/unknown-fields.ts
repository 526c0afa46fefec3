import { isJsonObject } from '../../http/json.ts'

/** Texts that servers send in pieces. */
const textFields = new Set(['content', 'data', 'reasoning', 'summary', 'text', 'thinking'])

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
    const both = { ...known }
    addFields(both, more)
    return both
  }
  return more
}

function joinedLists(known: readonly unknown[], more: readonly unknown[]): unknown[] {
  const list = [...known]
  for (const item of more) {
    const at = isJsonObject(item)
      ? list.findIndex((other) => isJsonObject(other) && other['index'] === item['index'])
      : -1
    if (at === -1 || !isJsonObject(item) || item['index'] === undefined) list.push(item)
    else list[at] = joined(list[at], item, '')
  }
  return list
}
