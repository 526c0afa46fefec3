import { passAtK } from '../analysis/draws.ts'
import type { PassAtK } from './evaluation-metrics.ts'

/** Attempts at one row, and how many of them passed. */
export interface RowAttempts {
  readonly attempts: number
  readonly passed: number
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
