import { quantile } from './quantile.ts'
import type { RunDocument } from './run-document.ts'

/**
 * Why a pass looks unearned. `notools`: it called no tool, where more than 80 % of the passes do.
 * `short`: it wrote less than a quarter of the median pass. `check`: it failed a check of the grader, a
 * metric of zeros and ones, that 95 % of the passes meet. `sametext`: it ended with a text that passes
 * in five rows or more. The first three need 20 passes. All are hints.
 */
export const unearnedReasons = ['notools', 'short', 'check', 'sametext'] as const
/** One of {@link unearnedReasons}. */
export type UnearnedReason = (typeof unearnedReasons)[number]

const bits = { notools: 1, short: 2, check: 4, sametext: 8 } as const

/** A list for each item with the reasons as bits, in the order of {@link unearnedReasons}. */
export function findUnearned(document: RunDocument, passed: Uint8Array): Uint8Array {
  const { columns } = document
  const found = new Uint8Array(passed.length)
  const passes: number[] = []
  for (let item = 0; item < passed.length; item++) if (passed[item] === 1) passes.push(item)
  const mark = (item: number, bit: number): void => {
    found[item] = (found[item] ?? 0) | bit
  }
  markSameTexts(columns, passes, (item) => mark(item, bits.sametext))
  if (passes.length < 20) return found

  const withTools = passes.filter((item) => columns.toolCalls[item] !== 0).length
  const usesTools = withTools / passes.length > 0.8
  const written = new Float64Array(
    passes.flatMap((item) => columns.completionTokens[item] ?? []),
  ).toSorted()
  const least = (quantile(written, 0.5) ?? 0) / 4
  const checks = checksOf(columns.metrics, passes)
  for (const item of passes) {
    if (usesTools && columns.toolCalls[item] === 0) mark(item, bits.notools)
    if ((columns.completionTokens[item] ?? least) < least) mark(item, bits.short)
    if (checks.some((values) => values[item] === 0)) mark(item, bits.check)
  }
  return found
}

/** Names of the reasons in a bit set. */
export function reasonsIn(found: number): UnearnedReason[] {
  return unearnedReasons.filter((reason) => (found & bits[reason]) !== 0)
}

/** Metrics of zeros and ones that 95 % of the passes meet. */
function checksOf(
  metrics: RunDocument['columns']['metrics'],
  passes: readonly number[],
): (number | null)[][] {
  return Object.values(metrics).filter((values) => {
    if (
      values.some((value) => value !== null && value !== undefined && value !== 0 && value !== 1)
    ) {
      return false
    }
    const measured = passes.filter((item) => typeof values[item] === 'number')
    const met = measured.filter((item) => values[item] === 1)
    return measured.length >= 20 && met.length / measured.length >= 0.95
  })
}

/**
 * Not where most passes end so: the answers of such a dataset are few, as in classification, and say
 * nothing about a trick.
 */
function markSameTexts(
  { row, summary }: RunDocument['columns'],
  passes: readonly number[],
  mark: (item: number) => void,
): void {
  const rowsOf = new Map<string, number | Set<number>>()
  for (const item of passes) {
    const text = summary[item] ?? ''
    const at = row[item] ?? -1
    const rows = rowsOf.get(text)
    // Nearly every text is said in one row only: no set for those.
    if (rows === undefined) rowsOf.set(text, at)
    else if (typeof rows !== 'number') rows.add(at)
    else if (rows !== at) rowsOf.set(text, new Set([rows, at]))
  }
  const same = passes.filter((item) => {
    const text = summary[item] ?? ''
    const rows = rowsOf.get(text)
    return text !== '' && typeof rows === 'object' && rows.size >= 5
  })
  if (same.length <= passes.length / 2) for (const item of same) mark(item)
}
