import { computeMetrics, type EvaluationMetrics, type ItemRecord } from '@osmosis/eval'

import type { ComparedModel } from './compared-models.ts'
import type { EvaluatedRun } from './evaluated-run.ts'

/** An evaluation that has ended, early or not. */
export interface LoopEvaluation {
  readonly loopName: string
  readonly dataset: string
  readonly rowCount: number
  /** Runs of each row by each model. */
  readonly n: number
  readonly passThreshold: number
  readonly scorerNames: readonly string[]
  /** The one under evaluation, then the baseline if there is one. */
  readonly models: readonly ComparedModel[]
  /** Those that have ended, by row, run and model. */
  readonly runs: readonly EvaluatedRun[]
  /** Milliseconds of wall time. */
  readonly durationMs: number
  /** Why runs were left out; null when none were. */
  readonly stopReason: string | null
}

/** What a scorer made of the runs of a model. Its scores are the rewards of these metrics. */
export interface ScorerSummary {
  readonly name: string
  readonly metrics: EvaluationMetrics
}

/** What became of the runs of one model. */
export interface ModelSummary {
  readonly model: ComparedModel
  readonly runs: number
  readonly failed: number
  readonly totalTokens: number
  /** Milliseconds, summed over the runs. */
  readonly totalDurationMs: number
  readonly scorers: readonly ScorerSummary[]
}

/** Sums an evaluation up, model by model. */
export function summarize(evaluation: LoopEvaluation): ModelSummary[] {
  const { n: nRuns, passThreshold, scorerNames, models } = evaluation
  return models.map((model) => {
    const runs = evaluation.runs.filter((run) => run.model.tag === model.tag)
    const metricsOf = (name: string): EvaluationMetrics =>
      computeMetrics(
        runs.map((run) => toRecord(run, name)),
        { nRuns, passThreshold },
      )
    const scorers = scorerNames.map((name) => ({ name, metrics: metricsOf(name) }))
    return {
      model,
      runs: runs.length,
      failed: runs.filter(({ result }) => result.error !== null).length,
      totalTokens: scorers[0]?.metrics.tokensUsed ?? 0,
      totalDurationMs: runs.reduce((sum, { result }) => sum + result.durationMs, 0),
      scorers,
    }
  })
}

/** A run as an evaluation of rollouts records it, with one score as its reward. */
function toRecord({ row, runIndex, result, scores }: EvaluatedRun, scorer: string): ItemRecord {
  const { promptTokens, completionTokens, error } = result
  return {
    rowIndex: row.sourceRowIndex,
    sourceRowIndex: row.sourceRowIndex,
    runIndex,
    model: 'primary',
    rolloutId: result.rolloutId,
    status: error === null ? 'success' : 'failed',
    reward: scores.values[scorer] ?? null,
    sampleRewards: {},
    usage: {
      promptTokens,
      completionTokens,
      totalTokens: promptTokens + completionTokens,
    },
    durationMs: result.durationMs,
    errorType: null,
    errorMessage: error,
    scores: {},
    scoreErrors: {},
  }
}
