import { errorMessage } from '@osmosis/core'

import type { DatasetRow } from '../dataset/dataset-row.ts'
import type { ItemScores } from '../run/ended-item.ts'
import type { ItemOutcome } from '../run/item-runner.ts'
import { type Scorer, toEvalInput } from './scorer.ts'

/**
 * Scores an item by all scorers concurrently. What failed or was skipped has nothing to score,
 * and a scorer that fails gives no score: 0 would be one. For several samples the score is their
 * mean, and there is none when one of them has none.
 */
export async function scoreItem(
  scorers: readonly Scorer[],
  row: DatasetRow,
  { samples }: ItemOutcome,
): Promise<ItemScores> {
  const scores: Record<string, number> = {}
  const scoreErrors: Record<string, string> = {}
  if (samples.length === 0) return { scores, scoreErrors }
  const outcomes = await Promise.allSettled(
    scorers.map(async (scorer) => {
      const values = samples.map(async (sample) =>
        checkedScore(await scorer.score(toEvalInput(row, sample))),
      )
      return mean(await Promise.all(values))
    }),
  )
  for (const [index, { name }] of scorers.entries()) {
    const outcome = outcomes[index]
    if (outcome?.status === 'fulfilled') scores[name] = outcome.value
    else scoreErrors[name] = errorMessage(outcome?.reason)
  }
  return { scores, scoreErrors }
}

/** @throws TypeError for what is no score */
export function checkedScore(value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value
  const shown = typeof value === 'number' || value === null ? String(value) : typeof value
  throw new TypeError(`it must return a finite number, got ${shown}`)
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
