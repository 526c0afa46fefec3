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
  /** Whether the attempts at a row are graded together. */
  readonly gradesGroups: boolean
}

/**
 * Those that have not ended yet, or are to be run again, by row, attempt and model, one at a time:
 * millions of them need no memory. Attempts that are graded together come together, by row and model, and
 * all of them when one is to be run: what a group grader says of some says nothing beside others.
 */
export function* pendingItems(
  range: ItemRange,
  ended: ReadonlyMap<string, ItemEvent>,
  runAgain: (event: ItemEvent) => boolean,
): Generator<readonly EvaluationItem[], void> {
  for (const items of evaluationItems(range)) {
    const isPending = items.some((item) => {
      const event = ended.get(keyOf(item))
      return event === undefined || runAgain(event)
    })
    if (isPending) yield items
  }
}

/** The same items for another try: rollouts, and a group, of their own. */
export function itemsAgain(items: readonly EvaluationItem[]): EvaluationItem[] {
  const start = newStart()
  return items.map((item) => ({
    ...item,
    rolloutId: toRolloutId(item.row, item.runIndex, item.model),
    group: { ...item.group, id: toGroupId(item.row, item.model, start) },
  }))
}

function* evaluationItems(range: ItemRange): Generator<readonly EvaluationItem[], void> {
  const { rows, attempts, models, gradesGroups } = range
  // Of this start: the group of an earlier one is another.
  const start = newStart()
  const runs = Array.from({ length: attempts }, (_, runIndex) => runIndex)
  for (const [rowIndex, row] of rows.entries()) {
    const toItem = (runIndex: number, model: ModelTag): EvaluationItem => {
      const id = toGroupId(row, model, start)
      const group = { id, attempt: runIndex + 1, size: attempts }
      return { rolloutId: toRolloutId(row, runIndex, model), row, rowIndex, runIndex, model, group }
    }
    if (gradesGroups) {
      for (const model of models) yield runs.map((runIndex) => toItem(runIndex, model))
    } else {
      for (const runIndex of runs) for (const model of models) yield [toItem(runIndex, model)]
    }
  }
}

function keyOf({ row, runIndex, model }: EvaluationItem): string {
  return itemKey({
    source_row_index: row.sourceRowIndex,
    run_index: runIndex,
    model_tag: model,
  })
}

function newStart(): string {
  return randomUUID().slice(0, 8)
}

function toGroupId({ sourceRowIndex }: DatasetRow, model: ModelTag, start: string): string {
  return `eval-${sourceRowIndex}${tagOf(model)}-${start}`
}

function toRolloutId({ sourceRowIndex }: DatasetRow, runIndex: number, model: ModelTag): string {
  return `eval-${sourceRowIndex}-run-${runIndex}${tagOf(model)}-${randomUUID().slice(0, 8)}`
}

function tagOf(model: ModelTag): string {
  return model === 'primary' ? '' : `-${model}`
}
