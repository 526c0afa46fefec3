import type { ItemRecord } from '../run/item-record.ts'
import type {
  EvaluationMetrics,
  FailureGroup,
  ScoreMetrics,
  RewardStats,
} from './evaluation-metrics.ts'
import { passAtKPoints } from './pass-at-k.ts'

/** What {@link computeMetrics} cannot see in the records. */
export interface MetricsOptions {
  /** The configured number of attempts per row, which an incomplete run need not have reached. */
  readonly nRuns: number
  readonly passThreshold: number
  /** Names of the eval functions. Default: none. */
  readonly scoreNames?: readonly string[]
}

/** Computes the metrics of the ended items of one model. */
export function computeMetrics(
  records: readonly ItemRecord[],
  options: MetricsOptions,
): EvaluationMetrics {
  const { nRuns, passThreshold, scoreNames = [] } = options
  const completed = records.filter(({ status }) => status !== 'skipped')
  const sumOf = (figure: (record: ItemRecord) => number): number =>
    records.reduce((sum, record) => sum + figure(record), 0)
  return {
    totalItems: records.length,
    completedItems: completed.length,
    failed: records.filter(({ status }) => status === 'failed').length,
    skipped: records.length - completed.length,
    passThreshold,
    reward: scoreMetrics(completed, ({ reward }) => reward, options),
    scores: Object.fromEntries(
      scoreNames.map((name) => [
        name,
        scoreMetrics(completed, ({ scores }) => scores[name] ?? null, options),
      ]),
    ),
    tokensUsed: sumOf(({ usage }) => usage?.totalTokens ?? 0),
    promptTokens: sumOf(({ usage }) => usage?.promptTokens ?? 0),
    completionTokens: sumOf(({ usage }) => usage?.completionTokens ?? 0),
    durationMs: sumOf(({ durationMs }) => durationMs),
    nRuns,
    failures: failureGroups(records),
    withoutModelCalls: records.filter(({ status, usage }) => status === 'success' && !usage).length,
  }
}

function scoreMetrics(
  records: readonly ItemRecord[],
  scoreOf: (record: ItemRecord) => number | null,
  { nRuns, passThreshold }: MetricsOptions,
): ScoreMetrics {
  const values = records.flatMap((record) => scoreOf(record) ?? [])
  const passes = (record: ItemRecord): boolean => {
    const score = scoreOf(record)
    return score !== null && score >= passThreshold
  }
  const passed = records.filter(passes).length
  const rows = [...Map.groupBy(records, ({ rowIndex }) => rowIndex).values()]
  return {
    graded: values.length,
    passed,
    passRate: records.length === 0 ? 0 : passed / records.length,
    stats: rewardStats(values),
    passAtK: passAtKPoints(
      rows.map((row) => ({ attempts: row.length, passed: row.filter(passes).length })),
      nRuns,
    ),
  }
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

/** Describes a list of rewards; null for an empty one. */
function rewardStats(rewards: readonly number[]): RewardStats | null {
  const sorted = rewards.toSorted((a, b) => a - b)
  const min = sorted[0]
  const max = sorted.at(-1)
  if (min === undefined || max === undefined) return null
  const average = mean(sorted)
  const variance = mean(sorted.map((reward) => (reward - average) ** 2))
  return { mean: average, median: median(sorted), std: Math.sqrt(variance), min, max }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function median(sorted: readonly number[]): number {
  const upper = Math.floor(sorted.length / 2)
  return mean(sorted.slice(sorted.length % 2 === 0 ? upper - 1 : upper, upper + 1))
}
