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
  const order = new Int32Array(table.size)
  let count = 0
  for (const { items } of table.groups) for (const item of items) order[count++] = item
  const read = numberReader(key, table)
  if (read === undefined || (key === 'row' && !descending)) return order
  const values = new Float64Array(order.length)
  for (const item of order) {
    const value = read(item)
    // Those without the number come last, whichever way the others are sorted.
    values[item] = isNaN(value) ? Number.POSITIVE_INFINITY : descending ? -value : value
  }
  return sortStably(order, values)
}

/** Sorting numbers alone and looking their places up takes half of the time that comparing items does. */
function sortStably(order: Int32Array, values: Float64Array): Int32Array {
  const sorted = values.toSorted()
  const taken = new Int32Array(order.length)
  const result = new Int32Array(order.length)
  for (const item of order) {
    const first = firstPlace(sorted, values[item] ?? 0)
    const before = taken[first] ?? 0
    result[first + before] = item
    taken[first] = before + 1
  }
  return result
}

/** The first place of a value in sorted values that hold it. */
function firstPlace(sorted: Float64Array, value: number): number {
  let low = 0
  let high = sorted.length - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle] ?? 0) < value) low = middle + 1
    else high = middle
  }
  return low
}
