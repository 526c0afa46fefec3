import { formatCount, formatDuration, formatQuantity, formatReward } from '@osmosis/eval'
import {
  RunTable,
  meanValue,
  passRate,
  runStatistics,
  type Distribution,
  type Estimate,
  type RunStatistics,
} from '@osmosis/eval/analysis'

import { dollars, intervalText, valueText, type Scale } from './figure-text.ts'
import type { ShownRunState, ShownModel } from './shown-run.ts'
import { onOneLine, packed, styled, tableLines, type Cell } from './terminal-text.ts'

const labelWidth = 13
const valueWidth = 9

/** A figure: its name, its value, and what there is to say of it. */
interface Figure {
  readonly label: string
  readonly value: string
  readonly remarks: readonly (string | undefined)[]
}

/** The figures of one model, with what their intervals mean; `state` says how long it took. */
export function figureLines(
  { table }: ShownModel,
  state: ShownRunState | undefined,
  width: number,
): string[] {
  if (table.size === 0) return ['Nothing has ended yet.']
  const statistics = runStatistics(table)
  const { stats, behaviour } = statistics
  const time = state && timeText(state)
  const figures: Figure[] = [
    figure(capital(stats.measure), stats.mean, 'plain', [withoutText(statistics)]),
    figure('Pass rate', stats.pass_rate, 'share', [passedText(table)]),
    ...drawFigures(statistics, table),
    ...gradientFigure(statistics, table),
    ...shares(statistics),
    ...metricsFigure(table),
    ...amount('Tokens', behaviour.completion_tokens, formatWhole, tokensText(table)),
    ...amount('Time', behaviour.seconds, formatSeconds, time),
    ...amount('Cost', behaviour.cost_usd, dollars, costText(behaviour.cost_usd, table)),
  ]
  const hasIntervals = figures.some(({ remarks }) =>
    remarks.some((text) => text?.startsWith('between')),
  )
  const note = 'Between: with 95 % confidence, counted by row.'
  return [
    ...figures.flatMap((one) => linesOf(one, width)),
    ...(hasIntervals ? [styled('dim', ' '.repeat(labelWidth) + note)] : []),
  ]
}

/** What each eval function gave; none where they are not beside a reward, or another eval function. */
export function scoreLines({ table, reader }: ShownModel): string[] {
  const { scores } = table.document.columns
  // One that never gave a score has no column.
  const all = new Set([...reader.manifest.inputs.code.scorers, ...Object.keys(scores)])
  const names = [...all].filter((name) => name !== table.measure)
  const rows = names.map((name): (Cell | string)[] => {
    const own = new RunTable(table.document, { measure: name })
    const graded = own.values.filter((value) => typeof value === 'number').length
    const mean = meanValue(own)
    const rate = passRate(own)
    return [
      onOneLine(name),
      { text: valueText(mean, 'plain'), format: 'bold' },
      intervalText(mean, 'plain') ?? '',
      valueText(rate, 'share'),
      intervalText(rate, 'share') ?? '',
      `${formatCount(graded)} of ${formatCount(table.size)}`,
    ]
  })
  const head = ['Eval function', 'Mean', '', 'Passed', '', 'Scored'].map((text): Cell => ({
    text,
    format: 'dim',
  }))
  return rows.length === 0 ? [] : tableLines([head, ...rows], { right: [1, 3] })
}

/** Means of what the grader measured. */
function metricsFigure({ size, document }: RunTable): Figure[] {
  const means = Object.entries(document.columns.metrics).flatMap(([name, column]) => {
    const known = column.filter((value) => typeof value === 'number')
    if (known.length === 0) return []
    const of = known.length === size ? '' : ` (of ${formatCount(known.length)})`
    return [`${onOneLine(name)} ${formatReward(sumOf(known) / known.length)}${of}`]
  })
  return means.length === 0 ? [] : [{ label: 'Metrics', value: '', remarks: [means.join(', ')] }]
}

function figure(
  label: string,
  estimate: Estimate,
  scale: Scale,
  remarks: readonly (string | undefined)[] = [],
): Figure {
  const value = valueText(estimate, scale)
  return { label, value, remarks: [intervalText(estimate, scale), ...remarks] }
}

function linesOf({ label, value, remarks }: Figure, width: number): string[] {
  const parts = remarks.filter((remark) => remark !== undefined)
  const column = labelWidth + (value === '' ? 0 : valueWidth)
  const [first = '', ...more] = packed(parts, '; ', width - column)
  const head =
    styled('dim', label.padEnd(labelWidth)) +
    (value === '' ? '' : styled('bold', value.padEnd(valueWidth)))
  return [`${head}${first}`.trimEnd(), ...more.map((line) => ' '.repeat(column) + line)]
}

/** pass@1 is the pass rate, but for rows that have ended in part. */
function drawFigures({ stats }: RunStatistics, table: RunTable): Figure[] {
  return stats.pass_at_k
    .filter(({ k }) => k > 1)
    .map((estimate) => {
      const { k, left_out: leftOut, rough, value } = estimate
      const passAll = stats.pass_hat_k.find((other) => other.k === k)?.value ?? null
      const isAll = k === table.document.attempts
      return figure(
        `Pass@${k}`,
        value === null ? { ...estimate, value: null } : estimate,
        'share',
        [
          `one of ${k} passes${rough && value !== null ? ' (rough: few rows)' : ''}`,
          isAll && passAll !== null
            ? `all ${k} pass in ${valueText({ value: passAll }, 'share')}`
            : undefined,
          leftOut > 0
            ? `without ${formatQuantity(leftOut, 'row')} of which fewer have ended`
            : undefined,
        ],
      )
    })
}

function gradientFigure({ stats, groups }: RunStatistics, table: RunTable): Figure[] {
  if (table.document.attempts < 2) return []
  const { never, always, flat, signal } = groups
  const open = groups.rows - stats.gradient.rows
  const kinds = [
    `${formatCount(signal)} of ${formatQuantity(stats.gradient.rows, 'row')} would teach`,
    `${formatCount(never)} never ${never === 1 ? 'passes' : 'pass'}`,
    `${formatCount(always)} always ${always === 1 ? 'does' : 'do'}`,
    ...(flat > 0
      ? [`${formatCount(flat)} ${flat === 1 ? 'has' : 'have'} other equal rewards`]
      : []),
  ]
  const without =
    open > 0
      ? `without ${formatQuantity(open, 'row')} of which fewer than two have ended`
      : undefined
  return [figure('Gradient', stats.gradient, 'share', [kinds.join(', '), without])]
}

/** Only what there is. */
function shares({ behaviour }: RunStatistics): Figure[] {
  const { tool_error_rate: tools, cut_off: cut, skipped } = behaviour
  return [
    ...(tools.errors > 0
      ? [
          figure('Tool errors', tools, 'share', [
            `${formatCount(tools.errors)} of ${formatQuantity(tools.tool_calls, 'tool call')}`,
          ]),
        ]
      : []),
    ...(cut.items > 0
      ? [
          figure('Cut off', cut, 'share', [
            `${formatQuantity(cut.items, 'rollout')} had a call that ended for want of tokens`,
          ]),
        ]
      : []),
    ...(skipped > 0
      ? [
          {
            label: 'Skipped',
            value: formatCount(skipped),
            remarks: ['taken out of training, and in no figure'],
          },
        ]
      : []),
  ]
}

function amount(
  label: string,
  { mean, p50, p95 }: Distribution,
  format: (value: number) => string,
  more: string | undefined,
): Figure[] {
  if (mean.value === null || p50 === null || p95 === null) return []
  const spread = `median ${format(p50)}, 95 % within ${format(p95)}`
  return [{ label, value: format(mean.value), remarks: [`per rollout, ${spread}`, more] }]
}

function tokensText({ document: { columns } }: RunTable): string {
  const [written, read] = [sumOf(columns.completionTokens), sumOf(columns.promptTokens)]
  return `${formatCount(written)} written and ${formatCount(read)} read in all`
}

function sumOf(values: readonly (number | null)[]): number {
  return values.reduce<number>((sum, value) => sum + (value ?? 0), 0)
}

function timeText({ durationMs, done }: ShownRunState): string | undefined {
  if (durationMs <= 0) return undefined
  const rate = done / (durationMs / 1000)
  return `${formatDuration(durationMs)} in all, ${rate.toFixed(rate < 10 ? 2 : 1)} rollouts/s`
}

function costText(
  cost: Distribution,
  { size, document: { columns } }: RunTable,
): string | undefined {
  if (cost.mean.value === null) return undefined
  const known = columns.costUsd.filter((value) => value !== null)
  const missing = size - known.length
  const but = missing > 0 ? `, not known of ${formatQuantity(missing, 'rollout')}` : ''
  return `${dollars(sumOf(known))} in all${but}`
}

function passedText(table: RunTable): string {
  const passed = table.groups.reduce((sum, group) => sum + group.passed, 0)
  const ended = table.groups.reduce((sum, group) => sum + group.ended, 0)
  const measure = table.measure === 'reward' ? 'reward' : 'score'
  const { threshold } = table.document
  return `${formatCount(passed)} of ${formatCount(ended)} have a ${measure} of ${formatReward(threshold)} or more`
}

/** Without a value there is no part in the mean, and no pass. */
function withoutText({
  stats,
  behaviour: { no_value: without },
}: RunStatistics): string | undefined {
  if (without.items === 0) return undefined
  return `${formatQuantity(without.items, 'rollout')} without; of the others ${valueText(stats.pass_rate_graded, 'share')} passed`
}

function capital(measure: string): string {
  return measure === 'reward' ? 'Reward' : onOneLine(measure)
}

function formatWhole(value: number): string {
  return formatCount(Math.round(value))
}

function formatSeconds(seconds: number): string {
  return seconds < 0.9995 ? `${Math.round(1000 * seconds)} ms` : formatDuration(1000 * seconds)
}
