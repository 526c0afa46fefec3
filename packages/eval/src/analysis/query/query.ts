import {
  type ItemFlag,
  itemFlags,
  type SuspicionReason,
  suspicionReasons,
} from '../table/item-flags.ts'
import type { FacetColumn } from '../table/run-document.ts'
import type { RunTable } from '../table/run-table.ts'
import { numberKeys, numberReader, numberTest } from './query-numbers.ts'

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

/** A term of a filter line; a bare word has no key. */
interface QueryTerm {
  /** In lower case. */
  readonly key: string
  readonly operator: string
  readonly value: string
  readonly negated: boolean
}

type ItemTest = (item: number) => boolean

const kinds = ['never', 'signal', 'always', 'flat']
const states = [
  'passed',
  'notpassed',
  'novalue',
  ...kinds,
  'noted',
  ...itemFlags,
  ...suspicionReasons,
]

/** The test of a term before negation, or a sentence about why the term is not understood. */
function itemTest(
  term: QueryTerm,
  table: RunTable,
  found: ReadonlySet<number> | undefined,
): ItemTest | string {
  const { key, operator, value, negated } = term
  if (key === '') return wordTest(value.toLowerCase(), table, negated ? undefined : found)
  const isText = operator === ':' || operator === '='
  if (isText && Object.hasOwn(textTests, key)) {
    return textTests[key as keyof typeof textTests](value, table)
  }
  const facet = facetOf(key, table)
  // A metric and a facet may share a name; built-in numbers take precedence over both.
  if (isText && facet !== undefined && !numberKeys.includes(key))
    return facetTest(key, value, facet, table)
  const reader = numberReader(key, table)
  if (reader === undefined) return unknownKey(key, isText, table)
  const test = numberTest(operator, value)
  if (test === null) return `"${key}" needs a number, such as ${key}>5 or ${key}:2-4.`
  return (item) => test(reader(item))
}

const textTests = {
  is: stateTest,
  has: stateTest,
  tool: toolTest,
  error: errorTest,
  version: (value: string, { document }: RunTable): ItemTest | string =>
    listTest('version', value, document.versions, document.columns.version),
  purpose: (value: string, { document }: RunTable): ItemTest | string =>
    listTest('purpose', value, document.purposes, document.columns.purpose),
  tag:
    (value: string, table: RunTable): ItemTest =>
    (item) =>
      same(table.note(item)?.tag, value),
}

function unknownKey(key: string, isText: boolean, { document }: RunTable): string {
  const { metrics, scores } = document.columns
  const numbers = [...numberKeys, ...Object.keys(metrics), ...Object.keys(scores)]
  if (!isText) return `"${key}" is not a number of a rollout. Use one of: ${numbers.join(', ')}.`
  const known = [...Object.keys(textTests), ...Object.keys(document.rows.facets), ...numbers]
  return `Unknown key "${key}". Use one of: ${known.join(', ')}; or put text in quotes.`
}

function stateTest(value: string, table: RunTable): ItemTest | string {
  const state = value.toLowerCase()
  if (state === 'passed') return (item) => table.passed(item)
  if (state === 'notpassed') return (item) => !table.passed(item) && table.counts(item)
  if (state === 'novalue') return (item) => table.value(item) === null && table.counts(item)
  if (state === 'noted') return (item) => table.note(item) !== undefined
  if (kinds.includes(state)) return (item) => table.group(item).kind === state
  if (itemFlags.includes(state as ItemFlag)) return (item) => table.has(item, state as ItemFlag)
  if (suspicionReasons.includes(state as SuspicionReason)) {
    return (item) => table.suspicions(item).includes(state as SuspicionReason)
  }
  return `Unknown state "is:${state}". Use one of: ${states.join(', ')}.`
}

/** A tool by its name, or by the beginning of its name. */
function toolTest(name: string, table: RunTable): ItemTest | string {
  const { toolNames, toolUses, columns } = table.document
  const exact = toolNames.some((tool) => same(tool, name))
  const wanted = new Set(
    toolNames.flatMap((tool, place) =>
      (exact ? same(tool, name) : tool.toLowerCase().startsWith(name.toLowerCase())) ? [place] : [],
    ),
  )
  if (wanted.size === 0) return `No tool is called "${name}"${listed(toolNames)}.`
  const uses = toolUses.map((use) => use.some((tool, at) => at % 3 === 0 && wanted.has(tool)))
  return (item) => uses[columns.toolUse[item] ?? -1] ?? false
}

function errorTest(type: string, table: RunTable): ItemTest | string {
  const { errorTypes, columns } = table.document
  const place = errorTypes.findIndex((name) => same(name, type))
  if (place === -1) return `No rollout failed with "${type}"${listed(errorTypes)}.`
  return (item) => columns.error[item] === place
}

/** An item with this name in its list; `lists` has one name on a line. */
function listTest(
  what: string,
  name: string,
  lists: readonly string[],
  column: readonly number[],
): ItemTest | string {
  const names = lists.map((list) => list.split('\n').filter(Boolean))
  const matches = names.map((list) => list.some((own) => same(own, name)))
  if (matches.includes(true)) return (item) => matches[column[item] ?? -1] ?? false
  return `No model call has the ${what} "${name}"${listed([...new Set(names.flat())])}.`
}

function facetOf(key: string, { document }: RunTable): FacetColumn | undefined {
  return Object.entries(document.rows.facets).find(([name]) => same(name, key))?.[1]
}

function facetTest(
  key: string,
  value: string,
  { values, of }: FacetColumn,
  table: RunTable,
): ItemTest | string {
  const place = values.findIndex((name) => same(name, value))
  if (place === -1) return `No row has the ${key} "${value}"${listed(values)}.`
  return (item) => of[table.group(item).place] === place
}

/** Searches in the summary of the item, in its error type, and in the facets and key of its row. */
function wordTest(word: string, table: RunTable, found: ReadonlySet<number> | undefined): ItemTest {
  const { rows, errorTypes, columns } = table.document
  const summaries = table.derive('summaries', () =>
    columns.summary.map((text) => text.toLowerCase()),
  )
  const errors = errorTypes.map((type) => type.toLowerCase().includes(word))
  const inRow = rows.key.map((key) => key.toLowerCase().includes(word))
  for (const { values, of } of Object.values(rows.facets)) {
    const matches = values.map((value) => value.toLowerCase().includes(word))
    if (!matches.includes(true)) continue
    for (const [place, value] of of.entries()) if (matches[value]) inRow[place] = true
  }
  return (item) =>
    (summaries[item]?.includes(word) ?? false) ||
    (inRow[table.group(item).place] ?? false) ||
    (errors[columns.error[item] ?? -1] ?? false) ||
    (found?.has(item) ?? false)
}

/** A query has no sign for a quotation mark, so those of a name do not count. */
function same(a: string | null | undefined, b: string): boolean {
  return typeof a === 'string' && a.replaceAll('"', '').toLowerCase() === b.toLowerCase()
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? '' : `; there are: ${names.slice(0, 8).join(', ')}`
}
