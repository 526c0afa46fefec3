import type { EvaluationItem, ItemOutcome } from './item-runner.ts'

/** How an item ended: skipped means the workflow took its sample out of training. */
export type ItemStatus = 'success' | 'failed' | 'skipped'

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

/** The record of an item that has ended. */
export function toItemRecord(
  { row, rowIndex, runIndex, model, rolloutId }: EvaluationItem,
  outcome: ItemOutcome,
  scores: ItemScores,
): ItemRecord {
  const { sourceRowIndex } = row
  // Conversations are large, and no record needs them.
  const { samples: _samples, kept: _kept, ...ending } = outcome
  const { errorMessage } = ending
  return {
    rowIndex,
    sourceRowIndex,
    runIndex,
    model,
    rolloutId,
    ...ending,
    errorMessage: errorMessage === null ? null : shortened(errorMessage),
    scores: scores.scores,
    scoreErrors: Object.fromEntries(
      Object.entries(scores.scoreErrors).map(([name, error]) => [name, shortened(error)]),
    ),
  }
}

/** Characters of an error that are kept: what it says first, and how its trace ends. */
const [keptHead, keptTail] = [12_288, 4_096]

/** Errors stay in memory as long as the run does, and some quote a whole answer or page. */
function shortened(error: string): string {
  const cut = error.length - keptHead - keptTail
  if (cut <= 0) return error
  return `${error.slice(0, keptHead)}\n… ${cut} of ${error.length} characters are left out …\n${error.slice(-keptTail)}`
}
