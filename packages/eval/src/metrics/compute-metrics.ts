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

/** Computes the metrics of the ended items of one model, which are looked at once. */
export function computeMetrics(
  records: Iterable<ItemRecord>,
  options: MetricsOptions,
): EvaluationMetrics {
  const { nRuns, passThreshold, scoreNames = [] } = options
  const counts = { total: 0, failed: 0, skipped: 0, withoutModelCalls: 0, durationMs: 0 }
  const tokens = { total: 0, prompt: 0, completion: 0 }
  const failures = new Map<string, { count: number; example: string }>()
  const reward = new ScoreCount(passThreshold)
  const scores = scoreNames.map((name) => [name, new ScoreCount(passThreshold)] as const)
  for (const record of records) {
    const { status, usage, rowIndex } = record
    counts.total += 1
    counts.durationMs += record.durationMs
    tokens.total += usage?.totalTokens ?? 0
    tokens.prompt += usage?.promptTokens ?? 0
    tokens.completion += usage?.completionTokens ?? 0
    if (status === 'success' && !usage) counts.withoutModelCalls += 1
    if (status === 'failed') {
      counts.failed += 1
      countFailure(failures, record)
    }
    if (status === 'skipped') {
      counts.skipped += 1
      continue
    }
    reward.add(rowIndex, record.reward)
    for (const [name, count] of scores) count.add(rowIndex, record.scores[name] ?? null)
  }
  return {
    totalItems: counts.total,
    completedItems: counts.total - counts.skipped,
    failed: counts.failed,
    skipped: counts.skipped,
    passThreshold,
    reward: reward.metrics(nRuns),
    scores: Object.fromEntries(scores.map(([name, count]) => [name, count.metrics(nRuns)])),
    tokensUsed: tokens.total,
    promptTokens: tokens.prompt,
    completionTokens: tokens.completion,
    durationMs: counts.durationMs,
    nRuns,
    failures: [...failures]
      .map(([errorType, failure]): FailureGroup => ({ errorType, ...failure }))
      .toSorted((a, b) => b.count - a.count),
    withoutModelCalls: counts.withoutModelCalls,
  }
}

function countFailure(
  failures: Map<string, { count: number; example: string }>,
  { errorType, errorMessage }: ItemRecord,
): void {
  const type = errorType ?? 'unknown'
  const group = failures.get(type)
  if (group === undefined) failures.set(type, { count: 1, example: errorMessage ?? '' })
  else group.count += 1
}

/** Counts what one score, or the reward, was of the completed items. */
class ScoreCount {
  readonly #threshold: number
  readonly #values: number[] = []
  readonly #rows = new Map<number, { attempts: number; passed: number }>()
  #completed = 0
  #passed = 0

  constructor(threshold: number) {
    this.#threshold = threshold
  }

  add(rowIndex: number, score: number | null): void {
    const row = this.#rows.get(rowIndex) ?? { attempts: 0, passed: 0 }
    if (row.attempts === 0) this.#rows.set(rowIndex, row)
    row.attempts += 1
    this.#completed += 1
    if (score === null) return
    this.#values.push(score)
    if (score < this.#threshold) return
    row.passed += 1
    this.#passed += 1
  }

  metrics(nRuns: number): ScoreMetrics {
    return {
      graded: this.#values.length,
      passed: this.#passed,
      passRate: this.#completed === 0 ? 0 : this.#passed / this.#completed,
      stats: rewardStats(this.#values),
      passAtK: passAtKPoints([...this.#rows.values()], nRuns),
    }
  }
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
