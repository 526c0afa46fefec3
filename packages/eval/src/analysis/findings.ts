import type { RunTable } from './run-table.ts'
import type { Sign } from './signs.ts'
import { type UnearnedReason, unearnedReasons } from './unearned.ts'

/** Something that deserves a look. */
export interface Finding {
  readonly key:
    | 'unearned'
    | 'failed'
    | 'stuck'
    | 'nocalls'
    | 'cut'
    | 'rewritten'
    | 'notpassed'
    | 'rows'
  /** `bad`: something is wrong. `warn`: it may be. `info`: what to know of the run. */
  readonly tone: 'bad' | 'warn' | 'info'
  /** E.g. `92 passed without a tool call`. */
  readonly title: string
  /** A sentence or two about what it means, or where it gathers. */
  readonly detail: string
  /** The filter line that shows its items. */
  readonly query: string
  /** How many items, or rows, it touches. */
  readonly count: number
}

/**
 * What one item of a finding costs: a reward that teaches a trick is worse than one that is missing. What is
 * no sign of trouble comes last.
 */
const costs = {
  unearned: 10,
  failed: 4,
  stuck: 2,
  nocalls: 2,
  cut: 2,
  rewritten: 2,
  notpassed: 0,
  rows: 0,
} as const

/** What to look at first: ranked by how many items it touches, times what each costs. */
export function findings(table: RunTable): Finding[] {
  const found = [
    unearned(table),
    bySign(table, 'failed', 'bad', (items) => ({
      title: `${thousands(items.length)} failed`,
      detail: `${tally(items.map((item) => table.errorType(item) ?? 'unknown'))}.`,
    })),
    bySign(table, 'stuck', 'bad', (items) => ({
      title: `${thousands(items.length)} ${items.length === 1 ? 'repeats' : 'repeat'} a failing tool call`,
      detail: `Mostly ${tally(
        items.flatMap((item) => failingTools(table, item)),
        1,
      )}. ${meanValue(table, items)}`,
    })),
    bySign(table, 'nocalls', 'bad', ({ length }) => ({
      title: `${thousands(length)} never asked the policy`,
      detail: 'They have nothing to train on. Does the agent use another model?',
    })),
    bySign(table, 'cut', 'warn', (items) => ({
      title: `${thousands(items.length)} ${items.length === 1 ? 'was' : 'were'} cut off`,
      detail: `A call ended with finish_reason length in ${percent(items.length / table.size)} of the rollouts. ${meanValue(table, items)}`,
    })),
    bySign(table, 'rewritten', 'warn', ({ length }) => ({
      title: `${thousands(length)} rewrote their history`,
      detail: 'A trainer splits or masks at that place.',
    })),
    notPassed(table),
    equalRows(table),
  ].filter((finding) => finding !== null)
  return found.toSorted((a, b) => b.count * costs[b.key] - a.count * costs[a.key])
}

function bySign(
  table: RunTable,
  sign: Sign & Finding['key'],
  tone: Finding['tone'],
  describe: (items: readonly number[]) => Pick<Finding, 'title' | 'detail'>,
): Finding | null {
  const items = itemsWith(table, sign)
  if (items.length === 0) return null
  return { key: sign, tone, ...describe(items), query: `is:${sign}`, count: items.length }
}

const reasonWords: Record<UnearnedReason, string> = {
  notools: 'without a tool call',
  short: 'with very little text',
  check: 'although a check failed',
  sametext: 'with the same last words as others',
}

function unearned(table: RunTable): Finding | null {
  const items = itemsWith(table, 'unearned')
  if (items.length === 0) return null
  const counts = unearnedReasons
    .map((reason) => ({
      reason,
      count: items.filter((item) => table.unearned(item).includes(reason)).length,
    }))
    .filter(({ count }) => count > 0)
    .toSorted((a, b) => b.count - a.count)
  const [first, ...others] = counts
  const all = first?.count === items.length
  const rest = (all ? others : counts).map(({ reason, count }) => `${count} ${reasonWords[reason]}`)
  return {
    key: 'unearned',
    tone: 'bad',
    title: all
      ? `${thousands(items.length)} passed ${reasonWords[first.reason]}`
      : `${thousands(items.length)} passes look unearned`,
    detail: `${rest.length === 0 ? '' : `${rest.join(', ')}. `}The reward may be exploitable.`,
    query: 'is:unearned',
    count: items.length,
  }
}

function notPassed(table: RunTable): Finding | null {
  const items: number[] = []
  for (let item = 0; item < table.size; item++) {
    if (!table.passed(item) && table.counts(item)) items.push(item)
  }
  if (items.length === 0) return null
  return {
    key: 'notpassed',
    tone: 'info',
    title: `${thousands(items.length)} of ${thousands(table.size)} did not pass`,
    detail: meanValue(table, items),
    query: 'is:notpassed',
    count: items.length,
  }
}

/** One attempt at a row says nothing of its gradient. */
function equalRows(table: RunTable): Finding | null {
  if (table.document.attempts < 2) return null
  const { never, always, flat } = table.kinds()
  const count = never + always + flat
  if (count === 0) return null
  const parts = [`${never} never pass`, `${always} always do`]
  if (flat > 0) parts.push(`${flat} have other equal rewards`)
  return {
    key: 'rows',
    tone: 'info',
    title: `${thousands(count)} ${count === 1 ? 'row gives' : 'rows give'} no gradient`,
    detail: `${parts.join(', ')}.`,
    query: '-is:signal',
    count,
  }
}

function itemsWith(table: RunTable, sign: Sign): number[] {
  const items: number[] = []
  for (let item = 0; item < table.size; item++) if (table.has(item, sign)) items.push(item)
  return items
}

/** Names of the tools that failed three times or more. */
function failingTools({ document }: RunTable, item: number): string[] {
  const use = document.toolUses[document.columns.toolUse[item] ?? -1] ?? []
  return use.flatMap((errors, at) =>
    at % 3 === 2 && errors >= 3 ? [document.toolNames[use[at - 2] ?? -1] ?? ''] : [],
  )
}

/** How often each, the most frequent first: `timeout 12, http_error 3`. */
function tally(names: readonly string[], most = 4): string {
  const counts = [...Map.groupBy(names, (name) => name)]
    .map(([name, { length }]) => ({ name, count: length }))
    .toSorted((a, b) => b.count - a.count)
  if (most === 1) return counts[0]?.name ?? ''
  return counts
    .slice(0, most)
    .map(({ name, count }) => `${name} ${count}`)
    .join(', ')
}

function meanValue(table: RunTable, items: readonly number[]): string {
  const values = items.flatMap((item) => table.value(item) ?? [])
  if (values.length === 0) return ''
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  return `Mean ${table.measure} ${mean.toFixed(2)}.`
}

function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`
}

function thousands(count: number): string {
  return count.toLocaleString('en-US')
}
