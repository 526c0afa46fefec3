import type { ItemEvent } from '../records/item-event.ts'
import { passAtK } from '../statistics/draws.ts'
import { quantile } from '../statistics/estimate.ts'

/** Describes a list of rewards, or of scores. */
export interface RewardStats {
  readonly mean: number
  readonly median: number
  /** The population standard deviation. */
  readonly std: number
  readonly min: number
  readonly max: number
}

/** Chance that at least one of k attempts at a row passes. */
export interface PassAtK {
  readonly k: number
  readonly value: number
}

/** Failed items with one error type. */
export interface FailureGroup {
  readonly errorType: string
  readonly count: number
  /** The message of the first of them in row order. */
  readonly example: string
}

/** The results of one eval function, or of the reward, over the items that have ended. */
export interface ScoreMetrics {
  /** Items with a score. */
  readonly graded: number
  /** Items whose score reaches the threshold. */
  readonly passed: number
  /** `passed` by all items except skipped ones: an item without a score counts as not passed. */
  readonly passRate: number
  /** Null when nothing is graded. */
  readonly stats: RewardStats | null
  /** Null unless there are two points or more. */
  readonly passAtK: readonly PassAtK[] | null
}

/** The metrics of one model, over the items that have ended. */
export interface EvaluationMetrics {
  /** Ended items; no figure includes pending ones. */
  readonly totalItems: number
  /** Without the skipped ones. */
  readonly completedItems: number
  readonly failed: number
  readonly skipped: number
  /** The least reward, or score, of an item that passes. */
  readonly passThreshold: number
  readonly reward: ScoreMetrics
  /** By eval function. */
  readonly scores: Readonly<Record<string, ScoreMetrics>>
  /** Tokens of all items, including skipped ones. */
  readonly tokensUsed: number
  readonly promptTokens: number
  readonly completionTokens: number
  /** Milliseconds, summed over the items. */
  readonly durationMs: number
  /** Attempts per row. */
  readonly nRuns: number
  /** The most frequent first. */
  readonly failures: readonly FailureGroup[]
  /** Successes that never called the policy: usually the agent bypasses it. */
  readonly withoutModelCalls: number
}

/** Options of {@link evaluationMetrics}. */
export interface MetricsOptions {
  /** The model whose items count. Default: the model under evaluation. */
  readonly modelTag?: 'primary' | 'baseline'
  /** The configured number of attempts per row, which an incomplete run need not have reached. */
  readonly nRuns: number
  readonly passThreshold: number
  /** Names of the eval functions. Default: none. */
  readonly scoreNames?: readonly string[]
}

/** Computes the metrics of the ended items of one model, the `summary` of `metrics.json`. */
export function evaluationMetrics(
  items: Iterable<ItemEvent>,
  options: MetricsOptions,
): EvaluationMetrics {
  const { modelTag = 'primary', nRuns, passThreshold, scoreNames = [] } = options
  const counts = { total: 0, failed: 0, skipped: 0, withoutModelCalls: 0, durationMs: 0 }
  const tokens = { total: 0, prompt: 0, completion: 0 }
  const failures = new Map<string, { count: number; example: string }>()
  const reward = new ScoreCount(passThreshold)
  const scores = scoreNames.map((name) => [name, new ScoreCount(passThreshold)] as const)
  for (const item of items) {
    if ((item.model_tag ?? 'primary') !== modelTag) continue
    counts.total += 1
    counts.durationMs += item.duration_ms
    tokens.total += item.tokens ?? 0
    tokens.prompt += item.prompt_tokens ?? 0
    tokens.completion += item.completion_tokens ?? 0
    if (item.status === 'success' && item.tokens === null && item.calls === 0) {
      counts.withoutModelCalls += 1
    }
    if (item.status === 'failed') {
      counts.failed += 1
      countFailure(failures, item)
    }
    if (item.status === 'skipped') {
      counts.skipped += 1
      continue
    }
    reward.add(item.row_index, item.reward)
    for (const [name, count] of scores) count.add(item.row_index, item.scores?.[name] ?? null)
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
  { error_type: errorType, error_message: errorMessage }: ItemEvent,
): void {
  const type = errorType ?? 'unknown'
  const group = failures.get(type)
  if (group === undefined) failures.set(type, { count: 1, example: errorMessage ?? '' })
  else group.count += 1
}

/** Collects one score, or the reward, of the completed items. */
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
  const median = quantile(sorted, 0.5) ?? average
  return { mean: average, median, std: Math.sqrt(variance), min, max }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/**
 * The points for k = 1, 2, 4, … up to `nRuns`, each the mean over the rows with enough attempts.
 * Null for fewer than two points, which would repeat the pass rate.
 */
function passAtKPoints(
  rows: readonly { readonly attempts: number; readonly passed: number }[],
  nRuns: number,
): PassAtK[] | null {
  const points: PassAtK[] = []
  for (let k = 1; k <= nRuns; k *= 2) {
    const eligible = rows.filter(({ attempts }) => attempts >= k)
    if (eligible.length === 0) break
    const value = mean(eligible.map(({ attempts, passed }) => passAtK(attempts, passed, k)))
    points.push({ k, value })
  }
  return points.length >= 2 ? points : null
}
