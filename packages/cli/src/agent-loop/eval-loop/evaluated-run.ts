import type { DatasetRow } from '@osmosis/eval'

import type { RowResult } from '../row-runner.ts'
import type { ComparedModel } from './compared-models.ts'
import type { RunScores } from './score-run.ts'

/** One of the runs of a row. */
export interface EvaluatedRun {
  readonly row: DatasetRow
  /** The attempt, from 0. */
  readonly runIndex: number
  readonly model: ComparedModel
  readonly result: RowResult
  readonly scores: RunScores
}
