import { shortenedError } from './shortened-error.ts'
import type { EvaluationItem, ItemOutcome } from './item-runner.ts'

/** Errors stay in memory as long as the run does. Characters. */
const mostInJournal = 8192

/** The end of one item: one attempt of a model at one row. */
export interface ItemRecord
  extends
    Pick<EvaluationItem, 'rowIndex' | 'runIndex' | 'model' | 'rolloutId'>,
    Omit<ItemOutcome, 'samples' | 'kept'>,
    ItemScores {
  /** Position in the dataset file, from 0. */
  readonly sourceRowIndex: number
}

/** What eval functions made of an item, each under its name in one of the two. */
export interface ItemScores {
  /** The mean over the kept samples. */
  readonly scores: Readonly<Record<string, number>>
  /** Why there is no score. */
  readonly scoreErrors: Readonly<Record<string, string>>
}

/**
 * The record of an item that has ended.
 *
 * @param redact - takes secrets out of an error, before it is cut: half a secret cannot be found
 */
export function toItemRecord(
  { row, rowIndex, runIndex, model, rolloutId }: EvaluationItem,
  outcome: ItemOutcome,
  scores: ItemScores,
  redact: (text: string) => string,
): ItemRecord {
  const { sourceRowIndex } = row
  // Conversations are large, and no record needs them.
  const { samples: _samples, kept: _kept, ...ending } = outcome
  const { errorMessage } = ending
  const shown = (error: string): string => shortenedError(redact(error), mostInJournal)
  return {
    rowIndex,
    sourceRowIndex,
    runIndex,
    model,
    rolloutId,
    ...ending,
    errorMessage: errorMessage === null ? null : shown(errorMessage),
    scores: scores.scores,
    scoreErrors: Object.fromEntries(
      Object.entries(scores.scoreErrors).map(([name, error]) => [name, shown(error)]),
    ),
  }
}
