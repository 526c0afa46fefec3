import { average } from '../statistics/estimate.ts'
import {
  type ItemFlag,
  stuckTools,
  type SuspicionReason,
  suspicionReasons,
} from '../table/item-flags.ts'
import type { RunTable } from '../table/run-table.ts'

/** An observation about a run that is worth a look. */
export interface Finding {
  readonly key:
    | 'suspicious'
    | 'failed'
    | 'stuck'
    | 'nocalls'
    | 'cut'
    | 'rewritten'
    | 'limited'
    | 'modelerror'
    | 'notext'
    | 'notpassed'
    | 'rows'
  /** `bad`: something is wrong. `warn`: something may be wrong. `info`: a fact about the run. */
  readonly tone: 'bad' | 'warn' | 'info'
  /** E.g. `92 passed without a tool call`. */
  readonly title: string
  /** A sentence or two about what it means, or where it occurs. */
  readonly detail: string
  /** The filter line that shows its items. */
  readonly query: string
  /** The number of items, or rows, that it concerns. */
  readonly count: number
}

/** The weight of one item of a finding: a hacked reward is worse than a missing one, and facts come last. */
const weights = {
  suspicious: 10,
  failed: 4,
  stuck: 2,
  nocalls: 2,
  cut: 2,
  rewritten: 2,
  limited: 1,
  modelerror: 1,
  notext: 1,
  notpassed: 0,
  rows: 0,
} as const

/** What to look at first: ranked by the number of items times their weight. */
export function findings(table: RunTable): Finding[] {
  const found = [
    byFlag(table, 'suspicious', 'bad', (items) => suspiciousTexts(table, items)),
    byFlag(table, 'failed', 'bad', (items) => ({
      title: `${thousands(items.length)} failed`,
      detail: `${tally(items.map((item) => table.errorType(item) ?? 'unknown'))}.`,
    })),
    byFlag(table, 'stuck', 'bad', (items) => ({
      title: `${thousands(items.length)} ${items.length === 1 ? 'repeats' : 'repeat'} a failing tool call`,
      detail: `Mostly ${tally(
        items.flatMap((item) => failingTools(table, item)),
        1,
      )}. ${meanText(table, items)}`,
    })),
    byFlag(table, 'nocalls', 'bad', ({ length }) => ({
      title: `${thousands(length)} never called the policy`,
      detail: 'They have nothing to train on. Does the agent use another model?',
    })),
    byFlag(table, 'cut', 'warn', (items) => ({
      title: `${thousands(items.length)} ${items.length === 1 ? 'was' : 'were'} cut off`,
      detail: `A call ended with finish_reason length in ${percent(items.length / table.size)} of the rollouts. ${meanText(table, items)}`,
    })),
    byFlag(table, 'rewritten', 'warn', ({ length }) => ({
      title: `${thousands(length)} rewrote their history`,
      detail: 'A trainer splits or masks there.',
    })),
    byFlag(table, 'limited', 'info', (items) => ({
      title: `${thousands(items.length)} reached a limit`,
      detail: `A limit ended ${items.length === 1 ? 'it' : 'them'}. ${meanText(table, items)}`,
    })),
    byFlag(table, 'modelerror', 'info', (items) => ({
      title: `${thousands(items.length)} ended with an unusable answer`,
      detail: `Their frameworks gave up on the policy, and the conversations so far are graded. ${meanText(table, items)}`,
    })),
    byFlag(table, 'notext', 'warn', (items) => ({
      title: `${thousands(items.length)} ended without a text`,
      detail: `A grader that reads the last text finds nothing there. An object that a framework reads from a tool call is \`ctx.output\` of graders once run() returns it. ${meanText(table, items)}`,
    })),
    notPassed(table),
    equalRows(table),
  ].filter((finding) => finding !== null)
  return found.toSorted((a, b) => b.count * weights[b.key] - a.count * weights[a.key])
}

function byFlag(
  table: RunTable,
  flag: ItemFlag & Finding['key'],
  tone: Finding['tone'],
  describe: (items: readonly number[]) => Pick<Finding, 'title' | 'detail'>,
): Finding | null {
  const items = itemsWith(table, flag)
  if (items.length === 0) return null
  return { key: flag, tone, ...describe(items), query: `is:${flag}`, count: items.length }
}

const reasonTexts: Record<SuspicionReason, string> = {
  notools: 'without a tool call',
  short: 'with very little text',
  check: 'although a check failed',
  sametext: 'with the same last text as others',
}

function suspiciousTexts(
  table: RunTable,
  items: readonly number[],
): Pick<Finding, 'title' | 'detail'> {
  const counts = suspicionReasons
    .map((reason) => ({
      reason,
      count: items.filter((item) => table.suspicions(item).includes(reason)).length,
    }))
    .filter(({ count }) => count > 0)
    .toSorted((a, b) => b.count - a.count)
  const [first, ...others] = counts
  const all = first?.count === items.length
  const rest = (all ? others : counts).map(({ reason, count }) => `${count} ${reasonTexts[reason]}`)
  return {
    title: all
      ? `${thousands(items.length)} passed ${reasonTexts[first.reason]}`
      : `${thousands(items.length)} suspicious passes`,
    detail: `${rest.length === 0 ? '' : `${rest.join(', ')}. `}The reward may be exploitable.`,
  }
}

function notPassed(table: RunTable): Finding | null {
  const items = table.counted.filter((item) => !table.passed(item))
  if (items.length === 0) return null
  return {
    key: 'notpassed',
    tone: 'info',
    title: `${thousands(items.length)} of ${thousands(table.size)} did not pass`,
    detail: meanText(table, items),
    query: 'is:notpassed',
    count: items.length,
  }
}

/** Null with one attempt per row, which has no training signal of its own. */
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
    title: `${thousands(count)} ${count === 1 ? 'row has' : 'rows have'} no training signal`,
    detail: `${parts.join(', ')}.`,
    query: '-is:signal',
    count,
  }
}

function itemsWith(table: RunTable, flag: ItemFlag): number[] {
  const items: number[] = []
  for (let item = 0; item < table.size; item++) if (table.has(item, flag)) items.push(item)
  return items
}

/** Names of the tools with which an item is stuck. */
function failingTools({ document }: RunTable, item: number): string[] {
  const use = document.toolUses[document.columns.toolUse[item] ?? -1] ?? []
  return stuckTools(use).map((tool) => document.toolNames[tool] ?? '')
}

/** The number of each, the most frequent first: `timeout 12, http_error 3`. */
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

function meanText(table: RunTable, items: readonly number[]): string {
  const values = items.flatMap((item) => table.value(item) ?? [])
  if (values.length === 0) return ''
  return `Mean ${table.measure} ${average(values).toFixed(2)}.`
}

function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`
}

function thousands(count: number): string {
  return count.toLocaleString('en-US')
}
