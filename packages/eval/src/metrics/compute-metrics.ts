import type { ItemRecord } from '../run/item-record.ts'
import type { EvaluationMetrics, FailureGroup } from './evaluation-metrics.ts'
import { passAtKPoints, type RowAttempts } from './pass-at-k.ts'
import { rewardStats } from './reward-stats.ts'

/**
 * Computes the metrics of ended items. `nRuns` is the configured number of attempts per row, which
 * an incomplete run need not have reached.
 */
export function computeMetrics(
  records: readonly ItemRecord[],
  options: { nRuns: number; passThreshold: number },
): EvaluationMetrics {
  const { nRuns, passThreshold } = options
  const completed = records.filter(({ status }) => status !== 'skipped')
  const rewards = records.flatMap(({ reward }) => reward ?? [])
  const passes = ({ reward }: ItemRecord): boolean => reward !== null && reward >= passThreshold
  const passed = completed.filter(passes).length
  return {
    totalSamples: records.length,
    completedSamples: completed.length,
    graded: rewards.length,
    passed,
    failed: records.filter(({ status }) => status === 'failed').length,
    skipped: records.length - completed.length,
    passRate: completed.length === 0 ? 0 : passed / completed.length,
    passThreshold,
    tokensUsed: sum(records.map(({ usage }) => usage?.totalTokens ?? 0)),
    promptTokens: sum(records.map(({ usage }) => usage?.promptTokens ?? 0)),
    completionTokens: sum(records.map(({ usage }) => usage?.completionTokens ?? 0)),
    rewardStats: rewardStats(rewards),
    nRuns,
    passAtK: passAtKPoints(attemptsByRow(completed, passes), nRuns),
    failures: failureGroups(records),
    withoutModelCalls: records.filter(({ status, usage }) => status === 'success' && !usage).length,
  }
}

function attemptsByRow(
  records: readonly ItemRecord[],
  passes: (record: ItemRecord) => boolean,
): RowAttempts[] {
  const rows = Map.groupBy(records, ({ rowIndex }) => rowIndex)
  return [...rows.values()].map((row) => ({
    attempts: row.length,
    passed: row.filter(passes).length,
  }))
}

function failureGroups(records: readonly ItemRecord[]): FailureGroup[] {
  const failures = records.filter(({ status }) => status === 'failed')
  const groups = Map.groupBy(failures, ({ errorType }) => errorType ?? 'unknown')
  return [...groups]
    .map(([errorType, group]) => ({
      errorType,
      count: group.length,
      example: group[0]?.errorMessage ?? '',
    }))
    .toSorted((a, b) => b.count - a.count)
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
