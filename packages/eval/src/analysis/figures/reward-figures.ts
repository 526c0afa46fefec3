import { type Estimate, meanOfRows, ratioEstimate } from '../statistics/estimate.ts'
import { areEqualRewards, type RowAttempts } from '../table/attempts.ts'
import type { RunTable } from '../table/run-table.ts'

/** A figure about `k` attempts at a row. */
export interface DrawEstimate extends Estimate {
  /** The number of attempts that are drawn. */
  readonly k: number
  /** AttemptedRows with fewer than `k` ended attempts, but at least one. */
  readonly left_out: number
  /** Below 50 rows and for k above 1, the interval covers the true value less often than 95 %. */
  readonly rough: boolean
}

/** The mean of all values, clustered by row; items without a value are excluded. */
export function meanValue(rows: readonly RowAttempts[]): Estimate {
  return ratioEstimate(
    rows.map(({ graded, mean }) => ({ sum: (mean ?? 0) * graded, weight: graded })),
  )
}

/** The share of items that pass, clustered by row. An item without a value has not passed. */
export function passRate(rows: readonly RowAttempts[]): Estimate {
  return ratioEstimate(
    rows.map(({ passed, ended }) => ({ sum: passed, weight: ended })),
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

/** The chance that one of `k` attempts passes: the mean over the rows. */
export function passAt(rows: readonly RowAttempts[], k: number): DrawEstimate {
  return drawEstimate(rows, k, ({ ended, passed }) => passAtK(ended, passed, k))
}

/** The chance that all of `k` attempts pass: the mean over the rows. */
export function passAllOf(rows: readonly RowAttempts[], k: number): DrawEstimate {
  return drawEstimate(rows, k, ({ ended, passed }) => passHatK(ended, passed, k))
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
  return drawEstimate(table.groups, size, ({ items }) =>
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

function drawEstimate<Row extends RowAttempts>(
  rows: readonly Row[],
  k: number,
  chance: (row: Row) => number,
): DrawEstimate {
  const enough = rows.filter(({ ended }) => ended >= k)
  return {
    k,
    ...meanOfRows(enough.map(chance), true),
    left_out: rows.filter(({ ended }) => ended > 0).length - enough.length,
    rough: k > 1 && enough.length < 50,
  }
}

/**
 * The chance that none of `k` attempts, drawn from `total` without replacement, is one of `marked`:
 * C(total − marked, k) / C(total, k), as a product of quotients, because the binomials overflow.
 *
 * @throws RangeError when `k` is not between 1 and `total`, or `marked` not between 0 and `total`
 */
function chanceOfNone(total: number, marked: number, k: number): number {
  if (k < 1 || k > total || marked < 0 || marked > total) {
    throw new RangeError(`Cannot draw ${k} of ${total} attempts with ${marked} marked.`)
  }
  let chance = 1
  for (let i = 0; i < k; i++) chance *= Math.max(0, total - marked - i) / (total - i)
  return chance
}

/**
 * The unbiased estimate of the chance that at least one of `k` attempts passes, from `attempts` attempts
 * of which `passed` passed: 1 − C(attempts − passed, k) / C(attempts, k) (Chen et al., arXiv 2107.03374).
 *
 * @throws RangeError when `k` is not between 1 and `attempts`, or `passed` not between 0 and `attempts`
 */
export function passAtK(attempts: number, passed: number, k: number): number {
  return 1 - chanceOfNone(attempts, passed, k)
}

/**
 * The unbiased estimate of the chance that all of `k` attempts pass: C(passed, k) / C(attempts, k)
 * (τ-bench, arXiv 2406.12045).
 *
 * @throws RangeError when `k` is not between 1 and `attempts`, or `passed` not between 0 and `attempts`
 */
export function passHatK(attempts: number, passed: number, k: number): number {
  return chanceOfNone(attempts, attempts - passed, k)
}

/**
 * The unbiased estimate of the chance that a group of `size` attempts at a row has rewards that are not
 * all equal. Attempts without a reward (null) are drawn too but differ from no reward: with n attempts, of
 * which m have no reward and nᵥ the reward v, it is
 * 1 − (Σᵥ C(nᵥ + m, size) − (V − 1) · C(m, size)) / C(n, size) for V different rewards.
 *
 * @throws RangeError when `size` is not between 1 and the number of attempts
 */
export function gradientChance(rewards: readonly (number | null)[], size: number): number {
  const given = rewards.filter((reward) => reward !== null).toSorted((a, b) => a - b)
  const equals: { reward: number; count: number }[] = []
  for (const reward of given) {
    const last = equals.at(-1)
    if (last !== undefined && areEqualRewards([last.reward, reward])) last.count += 1
    else equals.push({ reward, count: 1 })
  }
  const total = rewards.length
  const without = total - given.length
  const noReward = chanceOfNone(total, total - without, size)
  // A draw without any reward is counted for each reward, but must count once.
  let equal = noReward
  for (const { count } of equals) {
    equal += chanceOfNone(total, total - without - count, size) - noReward
  }
  // Rounding may give −1e-17.
  return Math.max(0, 1 - equal)
}
