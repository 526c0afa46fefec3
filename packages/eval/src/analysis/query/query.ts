import type { RunTable } from '../table/run-table.ts'
import { numberKeys, numberReader } from './query-numbers.ts'
import { itemTest, type QueryTerm } from './query-terms.ts'

/** A parsed filter line. */
export interface RunQuery {
  /** Whether an item matches. */
  readonly test: (item: number) => boolean
  readonly sort: QuerySort
  /** Bare words in lower case, without negated ones, to search for in the transcripts too. */
  readonly words: readonly string[]
  /** One sentence for each term that was not understood. Such terms do not filter. */
  readonly problems: readonly string[]
}

/** Ties are in the order of row and attempt, which is also the default. */
export interface QuerySort {
  readonly key: string
  readonly descending: boolean
}

/** Settings of {@link parseQuery}. */
export interface QueryOptions {
  /** Items whose transcripts contain the bare words; they match these words regardless of their facts. */
  readonly found?: ReadonlySet<number> | undefined
}

const token = /-?(?:[a-z_][\w.-]*(?:<=|>=|[:<>=]))?(?:"[^"]*"?|[^\s"]+)/gi
const pair = /^([a-z_][\w.-]*)(<=|>=|[:<>=])(.*)$/is

/**
 * Parses a filter line, e.g. `is:stuck reward<0.5 tool:update -"sorry" sort:-tokens`. An item must match
 * all terms. The README of this package describes the language.
 */
export function parseQuery(text: string, table: RunTable, { found }: QueryOptions = {}): RunQuery {
  const tests: ((item: number) => boolean)[] = []
  const words: string[] = []
  const problems: string[] = []
  let sort: QuerySort = { key: 'row', descending: false }
  for (const [part] of text.matchAll(token)) {
    const term = toTerm(part)
    if (term.key === 'sort') {
      const descending = term.value.startsWith('-')
      const key = term.value.slice(descending ? 1 : 0)
      if (numberReader(key, table) !== undefined) sort = { key, descending }
      else problems.push(`Cannot sort by "${key}". Sort by one of: ${numberKeys.join(', ')}.`)
      continue
    }
    if (term.key === '' && term.value === '') continue
    if (term.key === '' && !term.negated) words.push(term.value.toLowerCase())
    const test = itemTest(term, table, found)
    if (typeof test === 'string') problems.push(test)
    else tests.push(term.negated ? (item) => !test(item) : test)
  }
  return { test: (item) => tests.every((test) => test(item)), sort, words, problems }
}

function toTerm(part: string): QueryTerm {
  const negated = part.startsWith('-') && part.length > 1 && !/^-[\d.]/.test(part)
  const body = negated ? part.slice(1) : part
  const [, key = '', operator = '', value = ''] = body.startsWith('"')
    ? []
    : (pair.exec(body) ?? [])
  return {
    key: key.toLowerCase(),
    operator,
    value: (key === '' ? body : value).replaceAll('"', ''),
    negated,
  }
}

/** The items that match a query, in its order. */
export function selectItems(table: RunTable, query: RunQuery): Int32Array<ArrayBuffer> {
  // Sorting all items once, instead of each filter's result, keeps filters fast.
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
    // Items without the number come last in either direction.
    values[item] = isNaN(value) ? Number.POSITIVE_INFINITY : descending ? -value : value
  }
  return sortStably(order, values)
}

/** Sorts the numbers alone and looks up their places, which takes half the time of comparing items. */
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

/** The first place of a value in sorted values that contain it. */
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
