import { randomUUID } from 'node:crypto'

import type { RolloutOrder } from '@osmosis/controller'

import type { DatasetRow } from '../dataset/dataset-row.ts'

const slackSeconds = 60
const unboundedDeadlineSeconds = 3600

/** One attempt at one row. */
export interface EvaluationItem {
  readonly row: DatasetRow
  /** Position in the selected rows, from 0. */
  readonly rowIndex: number
  /** The attempt, from 0. */
  readonly runIndex: number
}

/** All items, row by row, one at a time: millions of them need no memory. */
export function* evaluationItems(
  rows: readonly DatasetRow[],
  attempts: number,
): Generator<EvaluationItem, void> {
  for (const [rowIndex, row] of rows.entries()) {
    for (let runIndex = 0; runIndex < attempts; runIndex++) yield { row, rowIndex, runIndex }
  }
}

/** Budgets of workflow and grader; seconds, null is unbounded. */
export interface ItemBudgets {
  readonly agentTimeoutSeconds: number | null
  readonly graderTimeoutSeconds: number | null
}

/** The order that runs an item, under a rollout id of its own. */
export function toRolloutOrder(
  item: EvaluationItem,
  budgets: ItemBudgets,
): RolloutOrder & { readonly rolloutId: string } {
  const { row, rowIndex, runIndex } = item
  return {
    rolloutId: randomUUID().replaceAll('-', ''),
    initialMessages: row.initialMessages.map((message) => ({ ...message })),
    label: row.label,
    metadata: row.metadata,
    extraFields: { row_index: rowIndex, run_index: runIndex },
    agentTimeoutSeconds: budgets.agentTimeoutSeconds,
    graderTimeoutSeconds: budgets.graderTimeoutSeconds,
    timeoutMs: deadlineSeconds(budgets) * 1000,
  }
}

function deadlineSeconds({ agentTimeoutSeconds, graderTimeoutSeconds }: ItemBudgets): number {
  if (agentTimeoutSeconds === null || graderTimeoutSeconds === null) return unboundedDeadlineSeconds
  const budget = agentTimeoutSeconds + graderTimeoutSeconds
  return budget > 0 ? budget + slackSeconds : unboundedDeadlineSeconds
}
