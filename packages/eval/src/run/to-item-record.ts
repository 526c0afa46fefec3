import type { RolloutOutcome } from '@osmosis/controller'
import { errorMessage } from '@osmosis/core'

import { classifyResult } from './classify-result.ts'
import type { EvaluationItem } from './evaluation-items.ts'
import type { ItemRecord } from './item-record.ts'

/** The record of an item whose rollout came to an end, good or bad. */
export function toItemRecord(item: EvaluationItem, result: RolloutOutcome): ItemRecord {
  const rewards = [...result.samples].map(([id, { reward }]) => [id, reward] as const)
  return {
    ...place(item),
    rolloutId: result.rolloutId,
    ...classifyResult(result),
    sampleRewards: Object.fromEntries(rewards),
    usage: result.policyCalls === 0 ? null : result.usage,
    durationMs: result.durationMs,
  }
}

/** The record of an item that the rollout server would not take. */
export function toRefusedRecord(
  item: EvaluationItem,
  refusal: { rolloutId: string; error: unknown; durationMs: number },
): ItemRecord {
  return {
    ...place(item),
    rolloutId: refusal.rolloutId,
    status: 'failed',
    reward: null,
    errorType: 'rollout_protocol_error',
    errorMessage: errorMessage(refusal.error),
    sampleRewards: {},
    usage: null,
    durationMs: refusal.durationMs,
  }
}

function place({ row, rowIndex, runIndex }: EvaluationItem): {
  rowIndex: number
  sourceRowIndex: number
  runIndex: number
} {
  return { rowIndex, sourceRowIndex: row.sourceRowIndex, runIndex }
}
