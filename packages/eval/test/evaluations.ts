import type { RolloutOrder, RolloutOutcome } from '@osmosis/controller'
import {
  type DatasetRow,
  type EvaluatedModel,
  type EvaluationOptions,
  type EvaluationResult,
  type RolloutSender,
  runEvaluation,
  workflowRunner,
  type WorkflowRunnerOptions,
} from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'

export const names = {
  run: 'multiply-1',
  rollout: 'multiply',
  dataset: 'data/multiply.jsonl',
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

/** Row and attempt of an item, as `1/0`. */
export function placeOfItem(item: ItemEvent): string {
  return `${item.row_index}/${item.run_index}`
}

/** A model of this name, whose rollouts end as `answer` says. */
export function modelThat(
  answer: (order: RolloutOrder, options: { signal: AbortSignal }) => MaybePromise<RolloutOutcome>,
  options: WorkflowRunnerOptions = {},
): EvaluatedModel {
  const sender: RolloutSender = {
    run: async (order, { signal = new AbortController().signal }) => ({
      ...(await answer(order, { signal })),
      rolloutId: order.rolloutId ?? '',
    }),
  }
  return { name: 'policies/arithmetic.ts', runner: workflowRunner(sender, options) }
}

/** Runs an evaluation of `rows` rows whose rollouts end as `answer` says. */
export async function evaluate(
  rows: number,
  answer: (order: RolloutOrder, options: { signal: AbortSignal }) => MaybePromise<RolloutOutcome>,
  options: Partial<EvaluationOptions> = {},
): Promise<EvaluationResult> {
  return runEvaluation({ names, rows: datasetRows(rows), model: modelThat(answer), ...options })
}

type MaybePromise<T> = T | Promise<T>
