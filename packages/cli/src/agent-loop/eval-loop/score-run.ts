import { errorMessage } from '@osmosis/core'
import type { DatasetRow } from '@osmosis/eval'

import type { RowResult } from '../row-runner.ts'
import { toEvalInput, type Scorer } from './scorer.ts'

/** What the scorers made of a run, each under its name in one of the two. */
export interface RunScores {
  readonly values: Readonly<Record<string, number>>
  /** Why there is no score. */
  readonly errors: Readonly<Record<string, string>>
}

/**
 * Scores a run by all scorers at the same time. A failed run has nothing to score, and a scorer
 * that fails gives no score: 0 would be one.
 */
export async function scoreRun(
  scorers: readonly Scorer[],
  row: DatasetRow,
  result: RowResult,
): Promise<RunScores> {
  const values: Record<string, number> = {}
  const errors: Record<string, string> = {}
  if (result.error !== null) return { values, errors }
  const outcomes = await Promise.allSettled(
    scorers.map(async ({ score }) => checkedScore(await score(toEvalInput(row, result)))),
  )
  for (const [index, { name }] of scorers.entries()) {
    const outcome = outcomes[index]
    if (outcome?.status === 'fulfilled') values[name] = outcome.value
    else errors[name] = errorMessage(outcome?.reason)
  }
  return { values, errors }
}

function checkedScore(value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value
  const shown = typeof value === 'number' || value === null ? String(value) : typeof value
  throw new TypeError(`it must return a finite number, got ${shown}`)
}
