import { tokensOf } from '../outcome-text.ts'
import type { EvaluatedRun } from './evaluated-run.ts'
import type { LoopEvaluation, ModelSummary, ScorerSummary } from './loop-evaluation.ts'

/** What `--output` gets. Keys are those of the Python SDK's results. */
export function toResultDocument(
  evaluation: LoopEvaluation,
  summaries: readonly ModelSummary[],
): object {
  const { stopReason, runs } = evaluation
  const [primary, baseline] = summaries
  const rows = Map.groupBy(runs, ({ row }) => row.sourceRowIndex)
  return {
    config: {
      model: primary?.model.name,
      n_runs: evaluation.n,
      pass_threshold: evaluation.passThreshold,
      eval_fns: evaluation.scorerNames,
      ...(baseline === undefined ? {} : { baseline_model: baseline.model.name }),
    },
    summary: {
      total_rows: rows.size,
      total_runs: runs.length,
      stopped_early: stopReason !== null,
      ...(stopReason === null ? {} : { stop_reason: stopReason }),
      eval_fns: scorerDocuments(primary?.scorers ?? []),
      total_tokens: summaries.reduce((sum, { totalTokens }) => sum + totalTokens, 0),
      total_duration_ms: milliseconds(evaluation.durationMs),
    },
    rows: [...rows].map(([rowIndex, ofRow]) => ({
      row_index: rowIndex,
      runs: ofRow.map((run) => runDocument(run, baseline !== undefined)),
    })),
    ...(baseline === undefined ? {} : { model_summaries: summaries.map(modelDocument) }),
  }
}

function runDocument({ runIndex, model, result, scores }: EvaluatedRun, tagged: boolean): object {
  return {
    run_index: runIndex,
    success: result.error === null,
    scores: scores.values,
    ...(Object.keys(scores.errors).length === 0 ? {} : { score_errors: scores.errors }),
    duration_ms: milliseconds(result.durationMs),
    tokens: tokensOf(result),
    ...(tagged ? { model_tag: model.tag } : {}),
    ...(result.error === null ? {} : { error: result.error }),
  }
}

function modelDocument(summary: ModelSummary): object {
  return {
    model: summary.model.name,
    model_tag: summary.model.tag,
    total_runs: summary.runs,
    total_tokens: summary.totalTokens,
    total_duration_ms: milliseconds(summary.totalDurationMs),
    eval_fns: scorerDocuments(summary.scorers),
  }
}

function scorerDocuments(scorers: readonly ScorerSummary[]): Record<string, object> {
  return Object.fromEntries(scorers.map(({ name, metrics }) => [name, scorerDocument(metrics)]))
}

/** Figures that there is nothing for are null: a mean of no scores is not 0. */
function scorerDocument(metrics: ScorerSummary['metrics']): object {
  const { stats, graded, passRate, passAtK } = metrics.reward
  return {
    mean: stats?.mean ?? null,
    std: stats?.std ?? null,
    median: stats?.median ?? null,
    min: stats?.min ?? null,
    max: stats?.max ?? null,
    scored_runs: graded,
    pass_rate: metrics.completedItems === 0 ? null : passRate,
    ...(passAtK === null ? {} : { pass_at_k: passAtK }),
  }
}

/** To the microsecond. */
function milliseconds(durationMs: number): number {
  return Math.round(durationMs * 1000) / 1000
}
