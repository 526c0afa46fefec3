import { createHash } from 'node:crypto'

/**
 * Identifies a JSON value: equal values have equal digests, whatever the order of their keys.
 *
 * @throws RangeError when it is nested too deeply to be walked
 */
export function bodyDigest(value: unknown): string {
  const canonical = JSON.stringify(value, (_, inner: unknown) => withSortedKeys(inner))
  return createHash('sha256').update(canonical).digest('base64')
}

function withSortedKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const entries = Object.entries(value)
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
