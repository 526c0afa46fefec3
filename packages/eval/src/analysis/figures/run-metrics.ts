import type { ItemEvent } from '../records/item-event.ts'
import { type Estimate, average, quantile } from '../statistics/estimate.ts'
import {
  attemptsByRow,
  chooseMeasure,
  countedItems,
  type GroupKind,
  valueOf,
} from '../table/attempts.ts'
import { type SuspicionReason, suspicionReasons } from '../table/item-flags.ts'
import type { RunTable } from '../table/run-table.ts'
import {
  distribution,
  type Distribution,
  lengthCorrelation,
  quantities,
  ratio,
  type FlagShare,
  flagShare,
  type ToolFigures,
  toolFigures,
} from './behaviour-figures.ts'
import { type Finding, findings } from './findings.ts'
import {
  type DrawEstimate,
  drawSizes,
  gradedPassRate,
  gradientAt,
  gradientShare,
  meanSpread,
  meanValue,
  passAllOf,
  passAt,
  passRate,
} from './reward-figures.ts'

/** All figures of a run as JSON data, as in `metrics.json`. */
export interface RunStatistics {
  readonly stats: {
    /** `reward`, or the eval function whose scores are used. */
    readonly measure: string
    readonly mean: Estimate
    /** Of all items, including those without a value. */
    readonly pass_rate: Estimate
    /** Of the items with a value. */
    readonly pass_rate_graded: Estimate
    /** For k = 1, 2, 4, … and the configured number of attempts. */
    readonly pass_at_k: readonly DrawEstimate[]
    readonly pass_hat_k: readonly DrawEstimate[]
    readonly gradient: Estimate
    /** For groups of 2, 4, … and the configured number of attempts. */
    readonly gradient_at: readonly DrawEstimate[]
    readonly spread: Estimate
  }
  /** All rows, and the rows of each kind: two of their attempts have ended, or the only one. */
  readonly groups: Readonly<Record<GroupKind | 'rows', number>>
  readonly behaviour: BehaviourStatistics
  readonly findings: readonly Finding[]
}

/** Figures about the behaviour of rollouts. */
export interface BehaviourStatistics {
  readonly calls: Distribution
  readonly tool_calls: Distribution
  readonly completion_tokens: Distribution
  readonly prompt_tokens: Distribution
  readonly seconds: Distribution
  readonly cost_usd: Distribution
  readonly completion_tokens_per_call: Estimate
  /** Pearson's correlation of completion tokens and value within rows that have a training signal. */
  readonly length_and_value: { readonly value: number | null; readonly rows: number }
  /** Failed tool calls by all tool calls. */
  readonly tool_error_rate: Estimate & { readonly errors: number; readonly tool_calls: number }
  /** The most called first. */
  readonly tools: readonly ToolFigures[]
  readonly stuck: FlagShare
  readonly cut_off: FlagShare
  readonly rewritten: FlagShare
  /** Passes that may be reward hacking, and the number of passes for each reason; a pass may have several. */
  readonly suspicious: FlagShare & { readonly reasons: Readonly<Record<SuspicionReason, number>> }
  readonly no_calls: FlagShare
  readonly no_value: {
    readonly items: number
    /** By error type; `none` where the item did not fail. */
    readonly by_type: Readonly<Record<string, number>>
  }
  /** Items whose samples were all removed from training. No other figure includes them. */
  readonly skipped: number
}

/** Computes all figures of a run. */
export function runStatistics(table: RunTable): RunStatistics {
  const sizes = drawSizes(table.document.attempts)
  const kinds = table.kinds()
  return {
    stats: {
      measure: table.measure,
      mean: meanValue(table.groups),
      pass_rate: passRate(table.groups),
      pass_rate_graded: gradedPassRate(table),
      pass_at_k: sizes.map((k) => passAt(table.groups, k)),
      pass_hat_k: sizes.map((k) => passAllOf(table.groups, k)),
      gradient: gradientShare(table),
      gradient_at: sizes.filter((size) => size > 1).map((size) => gradientAt(table, size)),
      spread: meanSpread(table),
    },
    groups: { rows: table.groups.length, ...kinds },
    behaviour: behaviourStatistics(table),
    findings: findings(table),
  }
}

function behaviourStatistics(table: RunTable): BehaviourStatistics {
  const { calls, tool_calls, completion_tokens, prompt_tokens, seconds, cost_usd } =
    quantities(table)
  const toolErrors = (item: number): number | undefined => table.document.columns.toolErrors[item]
  return {
    calls: distribution(table, calls),
    tool_calls: distribution(table, tool_calls),
    completion_tokens: distribution(table, completion_tokens),
    prompt_tokens: distribution(table, prompt_tokens),
    seconds: distribution(table, seconds),
    cost_usd: distribution(table, cost_usd),
    completion_tokens_per_call: ratio(table, completion_tokens, calls),
    length_and_value: lengthCorrelation(table),
    tool_error_rate: {
      ...ratio(table, toolErrors, tool_calls, true),
      errors: total(table, toolErrors),
      tool_calls: total(table, tool_calls),
    },
    tools: toolFigures(table),
    stuck: flagShare(table, 'stuck'),
    cut_off: flagShare(table, 'cut'),
    rewritten: flagShare(table, 'rewritten'),
    suspicious: { ...flagShare(table, 'suspicious'), reasons: reasonCounts(table) },
    no_calls: flagShare(table, 'nocalls'),
    no_value: withoutValue(table),
    skipped: table.count('skipped'),
  }
}

function total(table: RunTable, quantity: (item: number) => number | null | undefined): number {
  return table.counted.reduce((sum, item) => sum + (quantity(item) ?? 0), 0)
}

function reasonCounts(table: RunTable): Record<SuspicionReason, number> {
  const counts = Object.fromEntries(suspicionReasons.map((reason) => [reason, 0])) as Record<
    SuspicionReason,
    number
  >
  for (let item = 0; item < table.size; item++) {
    for (const reason of table.suspicions(item)) counts[reason] += 1
  }
  return counts
}

function withoutValue(table: RunTable): BehaviourStatistics['no_value'] {
  const types = table.counted.flatMap((item) =>
    table.value(item) === null ? [table.errorType(item) ?? 'none'] : [],
  )
  const groups = [...Map.groupBy(types, (type) => type)]
  return {
    items: types.length,
    by_type: Object.fromEntries(
      groups.map(([type, { length }]) => [type, length] as const).toSorted(([, a], [, b]) => b - a),
    ),
  }
}

/** The results of one eval function, or of the reward, over the items that have ended. */
export interface ScoreFigures {
  /** Items with a score. */
  readonly graded: number
  /** Items whose score reaches the threshold. */
  readonly passed: number
  /** `passed` by all items except skipped ones: an item without a score counts as not passed. */
  readonly pass_rate: number
  /** Absent when nothing is graded. The standard deviation is that of the population. */
  readonly stats?: Readonly<Record<'mean' | 'median' | 'std' | 'min' | 'max', number>>
  /** The chance that one of k attempts at a row passes; absent for fewer than two points. */
  readonly pass_at_k?: readonly { readonly k: number; readonly value: number }[]
}

/** The result of one model over the items that have ended, as in `metrics.json` of the Python SDK. */
export interface EvaluationSummary extends Omit<ScoreFigures, 'stats'> {
  /** Ended items; no figure includes pending ones. */
  readonly total_samples: number
  /** Without the skipped ones. */
  readonly completed_samples: number
  readonly failed: number
  readonly skipped: number
  /** The least reward, or score, of an item that passes. */
  readonly pass_threshold: number
  /** Tokens of all items, including skipped ones. */
  readonly tokens_used: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly reward_stats?: ScoreFigures['stats']
  /** Attempts per row. */
  readonly n_runs: number
  /** By eval function; absent without any. */
  readonly scores?: Readonly<Record<string, ScoreFigures>>
  /** By error type, the most frequent first, with the message of the first of them in row order. */
  readonly failures: readonly {
    readonly error_type: string
    readonly count: number
    readonly example: string
  }[]
  /** Successes that never called the policy: usually the agent bypasses it. */
  readonly without_model_calls: number
}

/** Options of {@link evaluationSummary}. */
export interface SummaryOptions {
  /** The configured number of attempts per row, which an incomplete run need not have reached. */
  readonly attempts: number
  readonly passThreshold: number
  /** Names of the eval functions. Default: none. */
  readonly scoreNames?: readonly string[]
}

/** Computes the `summary` of `metrics.json`. */
export function evaluationSummary(
  items: readonly ItemEvent[],
  { attempts, passThreshold, scoreNames = [] }: SummaryOptions,
): EvaluationSummary {
  const failed = items.filter(({ status }) => status === 'failed')
  const counted = countedItems(items)
  const sumOf = (key: 'tokens' | 'prompt_tokens' | 'completion_tokens'): number =>
    items.reduce((sum, item) => sum + (item[key] ?? 0), 0)
  const figures = (measure: string): ScoreFigures =>
    scoreFigures(counted, measure, passThreshold, attempts)
  const { stats, pass_at_k, ...reward } = figures('reward')
  const scores = scoreNames.map((name) => [name, figures(name)] as const)
  return {
    total_samples: items.length,
    completed_samples: counted.length,
    ...reward,
    failed: failed.length,
    skipped: items.length - counted.length,
    pass_threshold: passThreshold,
    tokens_used: sumOf('tokens'),
    prompt_tokens: sumOf('prompt_tokens'),
    completion_tokens: sumOf('completion_tokens'),
    ...(stats && { reward_stats: stats }),
    n_runs: attempts,
    ...(pass_at_k && { pass_at_k }),
    ...(scores.length > 0 && { scores: Object.fromEntries(scores) }),
    failures: [...Map.groupBy(failed, (item) => item.error_type ?? 'unknown')]
      .map(([error_type, group]) => ({
        error_type,
        count: group.length,
        example: group[0]?.error_message ?? '',
      }))
      .toSorted((a, b) => b.count - a.count),
    without_model_calls: items.filter(
      ({ status, tokens, calls }) => status === 'success' && tokens === null && calls === 0,
    ).length,
  }
}

/** The pass rate of a run, by the measure of its reports: what `--min-pass-rate` and `toPass` decide by. */
export function measuredPasses(summary: EvaluationSummary): { measure: string; rate: number } {
  const figures: Readonly<Record<string, Pick<ScoreFigures, 'graded' | 'pass_rate'>>> = {
    ...summary.scores,
    reward: summary,
  }
  const names = Object.keys(summary.scores ?? {})
  const measure = chooseMeasure(names, (name) => (figures[name]?.graded ?? 0) > 0)
  return { measure, rate: figures[measure]?.pass_rate ?? 0 }
}

function scoreFigures(
  counted: readonly ItemEvent[],
  measure: string,
  threshold: number,
  attempts: number,
): ScoreFigures {
  const rows = attemptsByRow(counted, measure, threshold)
  const values = counted.flatMap((item) => valueOf(item, measure) ?? [])
  const points = drawSizes(attempts).flatMap((k) => {
    const { value } = passAt(rows, k)
    return value === null ? [] : [{ k, value }]
  })
  return {
    graded: values.length,
    passed: rows.reduce((sum, { passed }) => sum + passed, 0),
    pass_rate: passRate(rows).value ?? 0,
    ...(values.length > 0 && { stats: describe(values, meanValue(rows).value ?? 0) }),
    ...(points.length >= 2 && { pass_at_k: points }),
  }
}

function describe(values: readonly number[], mean: number): NonNullable<ScoreFigures['stats']> {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number): number => quantile(sorted, share) ?? mean
  const std = Math.sqrt(average(values.map((value) => (value - mean) ** 2)))
  return { mean, median: at(0.5), std, min: at(0), max: at(1) }
}
