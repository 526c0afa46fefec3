/** A figure with its uncertainty. The row is the unit, because attempts at one row are correlated. */
export interface Estimate {
  /** Null when there are no values. */
  readonly value: number | null
  /** The 95 % interval. Null below two rows, or when no row differs. */
  readonly ci95: readonly [low: number, high: number] | null
  /** Rows that it was computed from. */
  readonly rows: number
}

/** Intervals of fewer rows are too wide to be useful. */
export const fewestRows = 5

/** The contribution of one row to a ratio of sums. */
export interface RowShare {
  readonly sum: number
  readonly weight: number
}

/**
 * A ratio Σ sum / Σ weight over rows, such as the mean of all values of all rows, with a standard error
 * clustered by row: √(R/(R−1) · Σᵣ(sumᵣ − value·weightᵣ)²) / Σ weight, and Student's t with R−1 degrees.
 * Of means: Miller, arXiv 2411.00640; of ratios: Cochran, Sampling Techniques, chapter 6.
 *
 * @param isRate - the values lie between 0 and 1: where all are 0, or all 1, there is no standard error,
 *   and the interval ends at the bound 1 − 0.05^(1/R) instead
 */
export function ratioEstimate(shares: readonly RowShare[], isRate = false): Estimate {
  const rows = shares.filter(({ weight }) => weight > 0)
  const count = rows.length
  let sum = 0
  let weight = 0
  for (const row of rows) {
    sum += row.sum
    weight += row.weight
  }
  if (count === 0) return { value: null, ci95: null, rows: 0 }
  const value = sum / weight
  if (count === 1) return { value, ci95: null, rows: 1 }
  if (isRate && (value === 0 || value === 1)) {
    const bound = 1 - 0.05 ** (1 / count)
    return { value, ci95: value === 0 ? [0, bound] : [1 - bound, 1], rows: count }
  }
  let squares = 0
  for (const row of rows) squares += (row.sum - value * row.weight) ** 2
  const error = Math.sqrt((squares * count) / (count - 1)) / weight
  // Equal rows do not show that others would be equal; the remaining error is rounding.
  if (error <= 1e-12 * Math.abs(value)) return { value, ci95: null, rows: count }
  const half = tQuantile(count - 1) * error
  return { value, ci95: [value - half, value + half], rows: count }
}

/** The mean of a value per row, with its standard error sd/√R. */
export function meanOfRows(values: readonly number[], isRate = false): Estimate {
  return ratioEstimate(
    values.map((sum) => ({ sum, weight: 1 })),
    isRate,
  )
}

/** NaN for no values. */
export function average(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/** Half the width of a two-sided interval; null where there is none. */
export function halfWidth({ ci95 }: Estimate): number | null {
  return ci95 === null ? null : (ci95[1] - ci95[0]) / 2
}

const quantiles = new Map<number, number>()

/**
 * The 97.5 % quantile of Student's t with a whole number of degrees of freedom: half the width of a
 * 95 % interval in standard errors. Infinite below one degree. Exact to 1e-9.
 *
 * Solves P(|T| ≤ t) = 0.95 by secants. That probability is a finite sum for whole degrees (Abramowitz
 * and Stegun, 26.7.3 and 26.7.4). It is concave in t, so that secants from below approach the root from
 * below; they start at the first terms of the expansion 26.7.5.
 */
export function tQuantile(degrees: number): number {
  if (degrees < 1) return Number.POSITIVE_INFINITY
  const known = quantiles.get(degrees)
  if (known !== undefined) return known
  const z = 1.959963984540054
  let before = z
  let t = z + (z ** 3 + z) / (4 * degrees)
  let missingBefore = 0.95 - centralProbability(before, degrees)
  for (let round = 0; round < 100 && Math.abs(t - before) > 1e-13 * t; round++) {
    const missing = 0.95 - centralProbability(t, degrees)
    const next =
      missing === missingBefore ? t : t + (missing * (t - before)) / (missingBefore - missing)
    before = t
    missingBefore = missing
    t = next
  }
  quantiles.set(degrees, t)
  return t
}

/** P(|T| ≤ t). */
function centralProbability(t: number, degrees: number): number {
  const angle = Math.atan(t / Math.sqrt(degrees))
  const squaredCosine = degrees / (degrees + t * t)
  const isOdd = degrees % 2 === 1
  // The sum of the odd case is sine times cosine times its series, and an angle beside it.
  let term = isOdd ? Math.cos(angle) : 1
  let sum = degrees === 1 ? 0 : term
  for (let factor = isOdd ? 2 : 1; factor <= degrees - 3; factor += 2) {
    term *= (squaredCosine * factor) / (factor + 1)
    sum += term
  }
  const product = Math.sin(angle) * sum
  return isOdd ? (2 / Math.PI) * (angle + product) : product
}

/** A quantile of sorted values by linear interpolation (type 7 of Hyndman and Fan 1996); null for none. */
export function quantile(sorted: ArrayLike<number>, share: number): number | null {
  const position = (sorted.length - 1) * share
  const low = sorted[Math.floor(position)]
  const high = sorted[Math.ceil(position)]
  if (low === undefined || high === undefined) return null
  return low + (high - low) * (position - Math.floor(position))
}
