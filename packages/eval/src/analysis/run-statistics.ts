import {
  distribution,
  type Distribution,
  lengthCorrelation,
  quantities,
  ratio,
  type SignShare,
  signShare,
  type ToolFigures,
  toolFigures,
} from './behaviour-figures.ts'
import type { Estimate } from './estimate.ts'
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
import type { GroupKind } from './row-group.ts'
import type { RunTable } from './run-table.ts'
import { type UnearnedReason, unearnedReasons } from './unearned.ts'

/** All figures of a run as JSON data, as they stand in `metrics.json`. */
export interface RunStatistics {
  readonly stats: {
    /** `reward`, or the eval function whose scores the figures are about. */
    readonly measure: string
    readonly mean: Estimate
    /** Of all items, those without a value included. */
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
  /** Of all rows, and of those that are of a kind: two attempts at them have ended, or the only one. */
  readonly groups: Readonly<Record<GroupKind | 'rows', number>>
  readonly behaviour: BehaviourStatistics
  readonly findings: readonly Finding[]
}

/** What the rollouts of a run did. */
export interface BehaviourStatistics {
  readonly calls: Distribution
  readonly tool_calls: Distribution
  readonly completion_tokens: Distribution
  readonly prompt_tokens: Distribution
  readonly seconds: Distribution
  readonly cost_usd: Distribution
  readonly completion_tokens_per_call: Estimate
  /** Pearson's correlation of completion tokens and value within rows that have a gradient. */
  readonly length_and_value: { readonly value: number | null; readonly rows: number }
  /** By tool calls. */
  readonly tool_error_rate: Estimate & { readonly errors: number; readonly tool_calls: number }
  /** The most called first. */
  readonly tools: readonly ToolFigures[]
  readonly stuck: SignShare
  readonly cut_off: SignShare
  readonly rewritten: SignShare
  /** Passes that look unearned, and how many for which reason; one may have several. */
  readonly unearned: SignShare & { readonly reasons: Readonly<Record<UnearnedReason, number>> }
  readonly no_calls: SignShare
  readonly no_value: {
    readonly items: number
    /** By error type; `none` where the item did not fail. */
    readonly by_type: Readonly<Record<string, number>>
  }
  /** Items whose samples were taken out of training. They are in no other figure. */
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
    stuck: signShare(table, 'stuck'),
    cut_off: signShare(table, 'cut'),
    rewritten: signShare(table, 'rewritten'),
    unearned: { ...signShare(table, 'unearned'), reasons: reasonCounts(table) },
    no_calls: signShare(table, 'nocalls'),
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
