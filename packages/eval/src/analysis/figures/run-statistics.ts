import type { Estimate } from '../statistics/estimate.ts'
import { type UnearnedReason, unearnedReasons } from '../table/item-flags.ts'
import type { GroupKind, RunTable } from '../table/run-table.ts'
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
  /** Possible reward hacking, and the number of passes for each reason; a pass may have several. */
  readonly unearned: FlagShare & { readonly reasons: Readonly<Record<UnearnedReason, number>> }
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
      mean: meanValue(table),
      pass_rate: passRate(table),
      pass_rate_graded: gradedPassRate(table),
      pass_at_k: sizes.map((k) => passAt(table, k)),
      pass_hat_k: sizes.map((k) => passAllOf(table, k)),
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
    unearned: { ...flagShare(table, 'unearned'), reasons: reasonCounts(table) },
    no_calls: flagShare(table, 'nocalls'),
    no_value: withoutValue(table),
    skipped: table.count('skipped'),
  }
}

function total(table: RunTable, quantity: (item: number) => number | null | undefined): number {
  let sum = 0
  for (let item = 0; item < table.size; item++) if (table.counts(item)) sum += quantity(item) ?? 0
  return sum
}

function reasonCounts(table: RunTable): Record<UnearnedReason, number> {
  const counts = Object.fromEntries(unearnedReasons.map((reason) => [reason, 0])) as Record<
    UnearnedReason,
    number
  >
  for (let item = 0; item < table.size; item++) {
    for (const reason of table.unearned(item)) counts[reason] += 1
  }
  return counts
}

function withoutValue(table: RunTable): BehaviourStatistics['no_value'] {
  const types: string[] = []
  for (let item = 0; item < table.size; item++) {
    if (table.counts(item) && table.value(item) === null) {
      types.push(table.errorType(item) ?? 'none')
    }
  }
  const groups = [...Map.groupBy(types, (type) => type)]
  return {
    items: types.length,
    by_type: Object.fromEntries(
      groups.map(([type, { length }]) => [type, length] as const).toSorted(([, a], [, b]) => b - a),
    ),
  }
}
