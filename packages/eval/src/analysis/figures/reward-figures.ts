import { gradientChance, passAtK, passHatK } from '../statistics/draws.ts'
import { type Estimate, meanOfRows, ratioEstimate } from '../statistics/estimate.ts'
import type { RowGroup, RunTable } from '../table/run-table.ts'

/** A figure about `k` attempts at a row. */
export interface DrawEstimate extends Estimate {
  /** The number of attempts that are drawn. */
  readonly k: number
  /** Rows with fewer than `k` ended attempts, but at least one. */
  readonly left_out: number
  /** Below 50 rows and for k above 1, the interval covers the true value less often than 95 %. */
  readonly rough: boolean
}

/** The mean of all values, clustered by row; items without a value are excluded. */
export function meanValue(table: RunTable): Estimate {
  return ratioEstimate(
    table.groups.map(({ graded, mean }) => ({ sum: (mean ?? 0) * graded, weight: graded })),
  )
}

/** The share of items that pass, clustered by row. An item without a value has not passed. */
export function passRate(table: RunTable): Estimate {
  return ratioEstimate(
    table.groups.map(({ passed, ended }) => ({ sum: passed, weight: ended })),
    true,
  )
}

/** The share of items that pass among those with a value. */
export function gradedPassRate(table: RunTable): Estimate {
  return ratioEstimate(
    table.groups.map(({ passed, graded }) => ({ sum: passed, weight: graded })),
    true,
  )
}

/** The chance that one of `k` attempts passes: the mean of {@link passAtK} over the rows. */
export function passAt(table: RunTable, k: number): DrawEstimate {
  return drawEstimate(table, k, (group) => passAtK(group.ended, group.passed, k))
}

/** The chance that all of `k` attempts pass: the mean of {@link passHatK} over the rows. */
export function passAllOf(table: RunTable, k: number): DrawEstimate {
  return drawEstimate(table, k, (group) => passHatK(group.ended, group.passed, k))
}

/**
 * The share of rows with a training signal: their rewards are not all equal (DAPO, arXiv 2503.14476). Of
 * the rows with two or more ended attempts.
 */
export function gradientShare(table: RunTable): Estimate {
  const rows = table.groups.filter((group) => group.ended >= 2)
  return meanOfRows(
    rows.map(({ kind }) => (kind === 'signal' ? 1 : 0)),
    true,
  )
}

/** The share of rows with a training signal in groups of `size` samples per prompt. */
export function gradientAt(table: RunTable, size: number): DrawEstimate {
  return drawEstimate(table, size, ({ items }) =>
    gradientChance(
      items.flatMap((item) => (table.counts(item) ? [table.value(item)] : [])),
      size,
    ),
  )
}

/** The mean over rows of the sample standard deviation of the values within one. */
export function meanSpread(table: RunTable): Estimate {
  return meanOfRows(table.groups.flatMap(({ spread }) => spread ?? []))
}

/** 1, 2, 4, … and the number of attempts itself. */
export function drawSizes(attempts: number): number[] {
  const sizes: number[] = []
  for (let size = 1; size < attempts; size *= 2) sizes.push(size)
  return [...sizes, attempts]
}

function drawEstimate(
  { groups }: RunTable,
  k: number,
  chance: (group: RowGroup) => number,
): DrawEstimate {
  const enough = groups.filter(({ ended }) => ended >= k)
  return {
    k,
    ...meanOfRows(enough.map(chance), true),
    left_out: groups.filter((group) => group.ended > 0).length - enough.length,
    rough: k > 1 && enough.length < 50,
  }
}
