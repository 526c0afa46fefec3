import type { RunTable } from './run-table.ts'

/**
 * The attempt at the same row that shows best what this one should have done, or not: one that ended
 * the other way, and as far from it in reward as there is. Null when no other attempt has a value.
 */
export function counterpartOf(table: RunTable, item: number): number | null {
  const others = table
    .group(item)
    .items.filter((other) => other !== item && table.value(other) !== null)
  const wanted = others.filter((other) => table.passed(other) !== table.passed(item))
  const distance = (other: number): number =>
    Math.abs((table.value(other) ?? 0) - (table.value(item) ?? 0))
  const [best] = (wanted.length > 0 ? wanted : others).toSorted((a, b) => distance(b) - distance(a))
  return best ?? null
}
