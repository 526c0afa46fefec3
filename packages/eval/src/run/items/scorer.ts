import { isRewardFunction, type EvalFunction, type EvalInput, errorMessage } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import { average } from '../../analysis/statistics/estimate.ts'
import type { DatasetRow } from '../../dataset/dataset-row.ts'
import type { ItemScores } from './item-record.ts'
import type { ScorableSample, ItemOutcome } from './item-runner.ts'

/** Scores a conversation of an item that succeeded. */
export interface Scorer {
  /** Its name in results. */
  readonly name: string
  /** Returns, or resolves to, an unchecked value of user code. */
  readonly score: (input: EvalInput) => unknown
}

/**
 * A scorer that calls a user's function in the form for which it was written: a function made by
 * `defineReward` receives texts, any other an `EvalInput`.
 */
export function toScorer(name: string, evaluate: (...args: never[]) => unknown): Scorer {
  if (!isRewardFunction(evaluate)) return { name, score: evaluate as EvalFunction }
  return {
    name,
    score: ({ solutionStr, groundTruth, metadata }) =>
      // The function itself rejects a row without a ground truth.
      evaluate(solutionStr, groundTruth as string, metadata),
  }
}

/** The input of one scorer. A copy, so that scorers cannot affect one another. */
export function toEvalInput(
  row: Pick<DatasetRow, 'label' | 'metadata' | 'otherColumns'>,
  sample: ScorableSample,
): EvalInput {
  return {
    messages: structuredClone(sample.messages) as ChatMessage[],
    solutionStr: sample.solutionStr,
    groundTruth: row.label,
    metadata: structuredClone({ ...row.otherColumns, ...row.metadata }),
    reward: sample.reward,
  }
}

/**
 * Scores an item by all scorers concurrently. Failed and skipped items are not scored, and a scorer that
 * fails gives no score, which is not 0. With several samples the score is their mean; it is missing when
 * one of them has no score.
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
      return average(await Promise.all(values))
    }),
  )
  for (const [index, { name }] of scorers.entries()) {
    const outcome = outcomes[index]
    if (outcome?.status === 'fulfilled') scores[name] = outcome.value
    else scoreErrors[name] = errorMessage(outcome?.reason)
  }
  return { scores, scoreErrors }
}

/** @throws TypeError for a value that is not a score */
export function checkedScore(value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value
  const shown = typeof value === 'number' || value === null ? String(value) : typeof value
  throw new TypeError(`it must return a finite number, got ${shown}`)
}
