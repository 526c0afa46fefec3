import type { RolloutOrder, RolloutOutcome } from '@osmosis/controller'
import {
  type DatasetRow,
  type EvaluationOptions,
  type EvaluationResult,
  type ItemRecord,
  runEvaluation,
  type RunRollout,
} from '@osmosis/eval'

export const names = {
  run: 'multiply-1',
  rollout: 'multiply',
  dataset: 'data/multiply.jsonl',
  model: 'policies/arithmetic.ts',
}

/** So many rows, each asking for the product of its position and itself. */
export function datasetRows(count: number): DatasetRow[] {
  return Array.from({ length: count }, (_, index) => ({
    sourceRowIndex: index,
    initialMessages: [{ role: 'user', content: `${index} × ${index}` }],
    label: String(index * index),
    metadata: null,
    otherColumns: {},
  }))
}

/** Row and attempt of an order, as `1/0`. */
export function placeOf(order: RolloutOrder): string {
  return `${String(order.extraFields?.row_index)}/${String(order.extraFields?.run_index)}`
}

/** Row and attempt of a record, as `1/0`. */
export function placeOfRecord(record: ItemRecord): string {
  return `${record.rowIndex}/${record.runIndex}`
}

/** Runs an evaluation of `rows` rows whose rollouts end as `answer` says. */
export async function evaluate(
  rows: number,
  answer: (order: RolloutOrder) => RolloutOutcome | Promise<RolloutOutcome>,
  options: Partial<EvaluationOptions> = {},
): Promise<EvaluationResult> {
  const runRollout: RunRollout = async (order) => ({
    ...(await answer(order)),
    rolloutId: order.rolloutId ?? '',
  })
  return runEvaluation({ names, rows: datasetRows(rows), runRollout, ...options })
}
