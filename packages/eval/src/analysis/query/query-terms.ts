import {
  type ItemFlag,
  itemFlags,
  type SuspicionReason,
  suspicionReasons,
} from '../table/item-flags.ts'
import type { FacetColumn } from '../table/run-document.ts'
import type { RunTable } from '../table/run-table.ts'
import { numberKeys, numberReader, numberTest } from './query-numbers.ts'

/** A term of a filter line; a bare word has no key. */
export interface QueryTerm {
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
export function itemTest(
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

function same(a: string | null | undefined, b: string): boolean {
  return typeof a === 'string' && a.toLowerCase() === b.toLowerCase()
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? '' : `; there are: ${names.slice(0, 8).join(', ')}`
}
