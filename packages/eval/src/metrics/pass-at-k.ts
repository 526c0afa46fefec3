import type { PassAtK } from './evaluation-metrics.ts'

/** Attempts at one row, and how many of them passed. */
export interface RowAttempts {
  readonly attempts: number
  readonly passed: number
}

/**
 * The unbiased estimate of the chance that at least one of `k` attempts passes, from `attempts`
 * attempts of which `passed` passed: 1 − C(attempts − passed, k) / C(attempts, k).
 *
 * @throws RangeError when `k` is not between 1 and `attempts`, or `passed` not between 0 and it
 */
export function passAtK(attempts: number, passed: number, k: number): number {
  if (k < 1 || k > attempts || passed < 0 || passed > attempts) {
    throw new RangeError(`pass@k is undefined for ${passed} of ${attempts} attempts and k = ${k}.`)
  }
  // As a product of quotients: the binomials themselves overflow.
  let allFail = 1
  for (let i = 0; i < k; i++) allFail *= Math.max(0, attempts - passed - i) / (attempts - i)
  return 1 - allFail
}

/**
 * The points for k = 1, 2, 4, … up to `nRuns`, each the mean over the rows with enough attempts.
 * Null when that makes fewer than two points, which say nothing that the pass rate does not.
 */
export function passAtKPoints(rows: readonly RowAttempts[], nRuns: number): PassAtK[] | null {
  const points: PassAtK[] = []
  for (let k = 1; k <= nRuns; k *= 2) {
    const eligible = rows.filter(({ attempts }) => attempts >= k)
    if (eligible.length === 0) break
    const values = eligible.map(({ attempts, passed }) => passAtK(attempts, passed, k))
    points.push({ k, value: values.reduce((sum, value) => sum + value, 0) / values.length })
  }
  return points.length >= 2 ? points : null
}
