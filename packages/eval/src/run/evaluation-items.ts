import { randomUUID } from 'node:crypto'

import type { DatasetRow } from '../dataset/dataset-row.ts'
import type { EvaluationItem, ModelTag } from './item-runner.ts'

/** All items by row, attempt and model, one at a time: millions of them need no memory. */
export function* evaluationItems(
  rows: readonly DatasetRow[],
  attempts: number,
  models: readonly ModelTag[],
): Generator<EvaluationItem, void> {
  for (const [rowIndex, row] of rows.entries()) {
    for (let runIndex = 0; runIndex < attempts; runIndex++) {
      for (const model of models) {
        const rolloutId = toRolloutId(row, runIndex, model)
        yield { rolloutId, row, rowIndex, runIndex, model }
      }
    }
  }
}

function toRolloutId({ sourceRowIndex }: DatasetRow, runIndex: number, model: ModelTag): string {
  const tag = model === 'primary' ? '' : `-${model}`
  return `eval-${sourceRowIndex}-run-${runIndex}${tag}-${randomUUID().slice(0, 8)}`
}
