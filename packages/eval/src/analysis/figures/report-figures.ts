import type { Estimate } from '../statistics/estimate.ts'
import type { RunTable } from '../table/run-table.ts'
import type { Distribution } from './behaviour-figures.ts'
import {
  formatCount,
  formatQuantity,
  formatReward,
  formatShare,
  unitText,
  type FigureUnit,
} from './number-text.ts'
import type { DrawEstimate } from './reward-figures.ts'
import type { RunStatistics } from './run-metrics.ts'

/** The subject of a figure in a report. */
export type FigureKey =
  | 'mean'
  | 'pass_rate'
  | 'pass_at_k'
  | 'gradient'
  | 'tool_errors'
  | 'cut_off'
  | 'skipped'
  | 'metrics'
  | 'tokens'
  | 'time'
  | 'cost'

/** A figure of a run, as the terminal and the page show it. */
export interface ReportFigure {
  readonly key: FigureKey
  readonly label: string
  /** Null when unknown; absent for a figure that has only notes. */
  readonly value?: number | null
  readonly unit: FigureUnit
  /** Of 95 %; absent where a figure has none. */
  readonly interval?: Pick<Estimate, 'ci95' | 'rows'>
  /** Remarks, the most important first. */
  readonly notes: readonly string[]
  /** The filter line that shows the rollouts behind it. */
  readonly query: string
  /** Whether there is nothing to report, e.g. no tool error. */
  readonly isZero?: boolean
  readonly isBad?: boolean
}

/** A larger share of failed tool calls is shown as bad. */
const badErrorRate = 0.05

/** The figures of a run, in the order of a report. */
export function reportFigures(table: RunTable, statistics: RunStatistics): ReportFigure[] {
  const { stats, behaviour } = statistics
  const figures: ReportFigure[] = [
    {
      key: 'mean',
      label: stats.measure === 'reward' ? 'Reward' : stats.measure,
      value: stats.mean.value,
      unit: 'reward',
      interval: stats.mean,
      notes: meanNotes(table, statistics),
      query: 'sort:reward',
    },
    {
      key: 'pass_rate',
      label: 'Pass rate',
      value: stats.pass_rate.value,
      unit: 'share',
      interval: stats.pass_rate,
      notes: [passNote(table)],
      query: 'is:notpassed',
    },
    ...stats.pass_at_k.filter(({ k }) => k > 1).map((draw) => drawFigure(draw, statistics, table)),
    ...(table.document.attempts > 1 ? [gradientFigure(statistics)] : []),
    ...behaviourFigures(behaviour),
    ...metricsFigure(table),
    amountFigure('tokens', 'Tokens', behaviour.completion_tokens, tokenNotes(table)),
    amountFigure('time', 'Time', behaviour.seconds, []),
    amountFigure('cost', 'Cost', behaviour.cost_usd, costNotes(behaviour.cost_usd, table)),
  ]
  return figures.filter(({ key, value }) => !isAmount(key) || value !== null)
}

function isAmount(key: FigureKey): boolean {
  return key === 'tokens' || key === 'time' || key === 'cost'
}

/** The mean excludes rollouts without a value; the pass rate counts them as not passed. */
function meanNotes(table: RunTable, { stats, behaviour, groups }: RunStatistics): string[] {
  const { items } = behaviour.no_value
  const size = `${formatQuantity(table.size, 'rollout')}, ${formatQuantity(groups.rows, 'row')}`
  if (items === 0) return [size]
  const graded = stats.pass_rate_graded.value
  const others = graded === null ? '' : `; of the others ${formatShare(graded)} passed`
  return [size, `${formatQuantity(items, 'rollout')} without${others}`]
}

function passNote(table: RunTable): string {
  const passed = table.groups.reduce((sum, group) => sum + group.passed, 0)
  const ended = table.groups.reduce((sum, group) => sum + group.ended, 0)
  const measure = table.measure === 'reward' ? 'reward' : 'score'
  const threshold = formatReward(table.document.threshold)
  return `${formatCount(passed)} of ${formatCount(ended)} have a ${measure} of ${threshold} or more`
}

function drawFigure(draw: DrawEstimate, { stats }: RunStatistics, table: RunTable): ReportFigure {
  const { k, left_out: leftOut, rough, value } = draw
  const passAll = stats.pass_hat_k.find((other) => other.k === k)?.value ?? null
  const isAll = k === table.document.attempts
  return {
    key: 'pass_at_k',
    label: `Pass@${k}`,
    value,
    unit: 'share',
    interval: draw,
    notes: [
      `one of ${k} passes${rough && value !== null ? ' (rough: few rows)' : ''}`,
      ...(isAll && passAll !== null ? [`all ${k} pass in ${formatShare(passAll)}`] : []),
      ...(leftOut > 0 ? [`without ${formatQuantity(leftOut, 'row')} with fewer attempts`] : []),
    ],
    query: 'is:never',
  }
}

function gradientFigure({ stats, groups }: RunStatistics): ReportFigure {
  const { never, always, flat, signal } = groups
  const { rows } = stats.gradient
  const open = groups.rows - rows
  const kinds = [
    `${formatCount(never)} never ${never === 1 ? 'passes' : 'pass'}`,
    `${formatCount(always)} always ${always === 1 ? 'passes' : 'pass'}`,
    ...(flat > 0
      ? [`${formatCount(flat)} ${flat === 1 ? 'has' : 'have'} other equal rewards`]
      : []),
  ]
  return {
    key: 'gradient',
    label: 'Signal',
    value: stats.gradient.value,
    unit: 'share',
    interval: stats.gradient,
    notes: [
      `${formatCount(signal)} of ${formatQuantity(rows, 'row')} with a training signal`,
      kinds.join(', '),
      ...(open > 0 ? [`without ${formatQuantity(open, 'row')} with fewer than two attempts`] : []),
    ],
    query: 'is:signal sort:-spread',
  }
}

function behaviourFigures({
  tool_error_rate: tools,
  cut_off: cut,
  rewritten,
  skipped,
}: RunStatistics['behaviour']): ReportFigure[] {
  const histories = rewritten.items === 1 ? 'history' : 'histories'
  return [
    {
      key: 'tool_errors',
      label: 'Tool errors',
      value: tools.value,
      unit: 'share',
      interval: tools,
      notes: [
        tools.tool_calls === 0
          ? 'no tool calls'
          : `${formatCount(tools.errors)} of ${formatQuantity(tools.tool_calls, 'tool call')}`,
      ],
      query: 'is:toolerror sort:-errors',
      isZero: tools.errors === 0,
      isBad: (tools.value ?? 0) > badErrorRate,
    },
    {
      key: 'cut_off',
      label: 'Truncated',
      value: cut.value,
      unit: 'share',
      interval: cut,
      notes: [
        `${formatQuantity(cut.items, 'rollout')} reached the token limit`,
        ...(rewritten.items > 0 ? [`${formatCount(rewritten.items)} rewritten ${histories}`] : []),
      ],
      query: 'is:cut',
      isZero: cut.items === 0,
    },
    {
      key: 'skipped',
      label: 'Skipped',
      value: skipped,
      unit: 'count',
      notes: ['removed from training and from all figures'],
      query: 'is:skipped',
      isZero: skipped === 0,
    },
  ]
}

/** Means of the grader's metrics. */
function metricsFigure({ counted, document }: RunTable): ReportFigure[] {
  const means = Object.entries(document.columns.metrics).flatMap(([name, column]) => {
    const known = counted.flatMap((item) => column[item] ?? [])
    if (known.length === 0) return []
    const of = known.length === counted.length ? '' : ` (of ${formatCount(known.length)})`
    return [`${name} ${formatReward(sumOf(known) / known.length)}${of}`]
  })
  if (means.length === 0) return []
  return [
    { key: 'metrics', label: 'Metrics', unit: 'reward', notes: [means.join(', ')], query: '' },
  ]
}

const amountUnits = { tokens: 'tokens', time: 'seconds', cost: 'dollars' } as const
const amountQueries = { tokens: 'sort:-tokens', time: 'sort:-seconds', cost: 'sort:-cost' } as const

function amountFigure(
  key: keyof typeof amountUnits,
  label: string,
  { mean, p50, p95 }: Distribution,
  more: readonly string[],
): ReportFigure {
  const unit = amountUnits[key]
  const spread =
    p50 === null || p95 === null
      ? []
      : [`per rollout, median ${unitText(p50, unit)}, 95 % within ${unitText(p95, unit)}`]
  return {
    key,
    label,
    value: mean.value,
    unit,
    notes: [...spread, ...more],
    query: amountQueries[key],
  }
}

function tokenNotes({ document: { columns } }: RunTable): string[] {
  const [written, read] = [sumOf(columns.completionTokens), sumOf(columns.promptTokens)]
  return [`${formatCount(written)} written and ${formatCount(read)} read in all`]
}

function costNotes(cost: Distribution, { size, document: { columns } }: RunTable): string[] {
  if (cost.mean.value === null) return []
  const known = columns.costUsd.filter((value) => value !== null)
  const missing = size - known.length
  const but = missing > 0 ? `, unknown for ${formatQuantity(missing, 'rollout')}` : ''
  return [`${unitText(sumOf(known), 'dollars')} in all${but}`]
}

function sumOf(values: readonly (number | null)[]): number {
  return values.reduce<number>((sum, value) => sum + (value ?? 0), 0)
}
