import type { EvaluationMetrics } from '../metrics/evaluation-metrics.ts'
import type { EvaluationSnapshot } from '../run/evaluation-result.ts'
import type { ItemRecord } from '../run/item-record.ts'

/** The text of `index.jsonl`: one line per record, in their order. */
export function toIndexText(records: readonly ItemRecord[]): string {
  return records.map((record) => `${toIndexLine(record)}\n`).join('')
}

/** The text of `metrics.json`. */
export function toMetricsText(snapshot: EvaluationSnapshot): string {
  return `${JSON.stringify(toMetricsDocument(snapshot), null, 2)}\n`
}

// Keys, their order and the separators are those of the Python SDK's files.
function toIndexLine(record: ItemRecord): string {
  const severalSamples = Object.keys(record.sampleRewards).length > 1
  const fields = {
    row_index: record.rowIndex,
    run_index: record.runIndex,
    rollout_id: record.rolloutId,
    status: record.status,
    reward: record.reward,
    tokens: record.usage?.totalTokens ?? null,
    duration_ms: toMilliseconds(record.durationMs),
    error_type: record.errorType,
    error_message: record.errorMessage,
    sample_rewards: severalSamples ? record.sampleRewards : null,
  }
  const present = Object.entries(fields).filter(([, value]) => value !== null)
  return `{${present.map(([key, value]) => `"${key}": ${JSON.stringify(value)}`).join(', ')}}`
}

function toMetricsDocument(snapshot: EvaluationSnapshot): Record<string, unknown> {
  const { names, status, incompleteReason, startedAt, completedAt } = snapshot
  return {
    eval_run: {
      id: snapshot.id,
      status,
      name: names.run,
      dataset_name: names.dataset,
      model_name: names.model,
      rollout_name: names.rollout,
      duration_ms: toMilliseconds(snapshot.durationMs),
      started_at: startedAt.toISOString(),
      ...(completedAt === null ? {} : { completed_at: completedAt.toISOString() }),
      ...(incompleteReason === null ? {} : { incomplete_reason: incompleteReason }),
    },
    summary: toSummary(snapshot.metrics),
  }
}

function toSummary(metrics: EvaluationMetrics): Record<string, unknown> {
  return {
    total_samples: metrics.totalSamples,
    completed_samples: metrics.completedSamples,
    graded: metrics.graded,
    passed: metrics.passed,
    failed: metrics.failed,
    skipped: metrics.skipped,
    pass_rate: metrics.passRate,
    pass_threshold: metrics.passThreshold,
    tokens_used: metrics.tokensUsed,
    prompt_tokens: metrics.promptTokens,
    completion_tokens: metrics.completionTokens,
    ...(metrics.rewardStats === null ? {} : { reward_stats: metrics.rewardStats }),
    n_runs: metrics.nRuns,
    ...(metrics.passAtK === null ? {} : { pass_at_k: metrics.passAtK }),
    failures: metrics.failures.map(({ errorType, count, example }) => ({
      error_type: errorType,
      count,
      example,
    })),
    without_model_calls: metrics.withoutModelCalls,
  }
}

/** To the microsecond. */
function toMilliseconds(durationMs: number): number {
  return Math.round(durationMs * 1000) / 1000
}
