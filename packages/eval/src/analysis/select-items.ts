import type { QuerySort, RunQuery } from './query.ts'
import { numberReader } from './query-numbers.ts'
import type { RunTable } from './run-table.ts'

/** The items that a query lets in, in its order. */
export function selectItems(table: RunTable, query: RunQuery): Int32Array<ArrayBuffer> {
  // Sorting all of them once, and not what each filter leaves, is what keeps filters quick.
  const { key, descending } = query.sort
  const order = table.derive(`order ${key} ${descending}`, () => sortItems(table, query.sort))
  const selected = new Int32Array(order.length)
  let count = 0
  for (const item of order) if (query.test(item)) selected[count++] = item
  return selected.slice(0, count)
}

function sortItems(table: RunTable, { key, descending }: QuerySort): Int32Array {
  const order = Int32Array.from(table.groups.flatMap(({ items }) => items))
  if (key === 'row' && !descending) return order
  const read = numberReader(key, table)
  if (read === undefined) return order
  const values = new Float64Array(order.length)
  for (const item of order) {
    const value = read(item)
    // Those without the number come last, whichever way the others are sorted.
    values[item] = isNaN(value) ? Number.POSITIVE_INFINITY : descending ? -value : value
  }
  return order.toSorted((a, b) => {
    const [left = 0, right = 0] = [values[a], values[b]]
    return left < right ? -1 : left > right ? 1 : 0
  })
}
