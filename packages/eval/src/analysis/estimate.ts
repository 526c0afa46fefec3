import { tQuantile } from './student-t.ts'

/** A figure with what is known of its uncertainty. Rows are the unit: attempts at a row are alike. */
export interface Estimate {
  /** Null when there was nothing to compute it from. */
  readonly value: number | null
  /** The 95 % interval. Null when nothing can be said: below two rows, or when no row differs. */
  readonly ci95: readonly [low: number, high: number] | null
  /** Rows that it was computed from. */
  readonly rows: number
}

/** What one row gives to a ratio of sums. */
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
  // Rows that do not differ are no proof that others would not; what is left then is rounding.
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

/** Half the width of a two-sided interval; null where there is none. */
export function halfWidth({ ci95 }: Estimate): number | null {
  return ci95 === null ? null : (ci95[1] - ci95[0]) / 2
}
