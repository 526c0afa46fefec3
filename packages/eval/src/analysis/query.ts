import { isSortKey, numberKeys } from './query-numbers.ts'
import { itemTest, type QueryTerm } from './query-terms.ts'
import type { RunTable } from './run-table.ts'

/** A filter line that was understood, at least in parts. */
export interface RunQuery {
  /** Whether an item is in. */
  readonly test: (item: number) => boolean
  readonly sort: QuerySort
  /** Bare words in lower case, to be searched in the transcripts as well; without the negated ones. */
  readonly words: readonly string[]
  /** What was not understood, a sentence each. Those parts do not filter. */
  readonly problems: readonly string[]
}

/** Ties, and everything by default, are in the order of row and attempt. */
export interface QuerySort {
  readonly key: string
  readonly descending: boolean
}

/** Settings of {@link parseQuery}. */
export interface QueryOptions {
  /** Items whose transcripts hold the bare words; they match these words whatever their facts say. */
  readonly found?: ReadonlySet<number> | undefined
}

const token = /-?(?:[a-z_][\w.-]*(?:<=|>=|[:<>=]))?(?:"[^"]*"?|[^\s"]+)/gi
const pair = /^([a-z_][\w.-]*)(<=|>=|[:<>=])(.*)$/is

/**
 * Reads a filter line, e.g. `is:stuck reward<0.5 tool:update -"sorry" sort:-tokens`. All its parts must
 * hold. The README of this package describes the language.
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
      if (isSortKey(key, table)) sort = { key, descending }
      else
        problems.push(
          `Nothing can be sorted by "${key}"; by these it can: ${numberKeys.join(', ')}.`,
        )
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
