import { randomUUID } from 'node:crypto'

import type { ItemEvent } from '../analysis/item-event.ts'
import type { DatasetRow } from '../dataset/dataset-row.ts'
import { itemKey } from '../store/run-files.ts'
import type { EvaluationItem, ModelTag } from './item-runner.ts'

/** Which items there are. */
export interface ItemRange {
  readonly rows: readonly DatasetRow[]
  readonly attempts: number
  readonly models: readonly ModelTag[]
}

/** All items by row, attempt and model, one at a time: millions of them need no memory. */
function* evaluationItems({ rows, attempts, models }: ItemRange): Generator<EvaluationItem, void> {
  for (const [rowIndex, row] of rows.entries()) {
    for (let runIndex = 0; runIndex < attempts; runIndex++) {
      for (const model of models) {
        const rolloutId = toRolloutId(row, runIndex, model)
        yield { rolloutId, row, rowIndex, runIndex, model }
      }
    }
  }
}

/** Those that have not ended yet, or are to be run again. */
export function* pendingItems(
  range: ItemRange,
  ended: ReadonlyMap<string, ItemEvent>,
  runAgain: (event: ItemEvent) => boolean,
): Generator<EvaluationItem, void> {
  for (const item of evaluationItems(range)) {
    const event = ended.get(keyOf(item))
    if (event === undefined || runAgain(event)) yield item
  }
}

function keyOf({ row, runIndex, model }: EvaluationItem): string {
  return itemKey({
    source_row_index: row.sourceRowIndex,
    run_index: runIndex,
    model_tag: model,
  })
}

function toRolloutId({ sourceRowIndex }: DatasetRow, runIndex: number, model: ModelTag): string {
  const tag = model === 'primary' ? '' : `-${model}`
  return `eval-${sourceRowIndex}-run-${runIndex}${tag}-${randomUUID().slice(0, 8)}`
}
