import { formatCount, formatDuration } from '@osmosis/eval'
import {
  RunTable,
  meanValue,
  passRate,
  reportFigures,
  runStatistics,
  unitText,
  type ReportFigure,
} from '@osmosis/eval/analysis'

import { intervalText, valueText } from './figure-text.ts'
import type { ShownRunState, ShownModel } from './shown-run.ts'
import { onOneLine, packed, styled, tableLines, type Cell } from './terminal-text.ts'

const labelWidth = 13
const valueWidth = 9

/** The figures of one model, with what their intervals mean; `state` says how long it took. */
export function figureLines(
  { table }: ShownModel,
  state: ShownRunState | undefined,
  width: number,
): string[] {
  if (table.size === 0) return ['Nothing has ended yet.']
  // The head of the report has said how many rollouts and rows there are.
  const figures = reportFigures(table, runStatistics(table))
    .filter(({ isZero = false }) => !isZero)
    .map((figure) => (figure.key === 'mean' ? { ...figure, notes: figure.notes.slice(1) } : figure))
  const hasIntervals = figures.some((figure) => intervalOf(figure) !== undefined)
  const note = 'Between: with 95 % confidence, counted by row.'
  return [
    ...figures.flatMap((figure) =>
      linesOf(figure, figure.key === 'time' && state ? timeNotes(state) : [], width),
    ),
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

function linesOf(figure: ReportFigure, more: readonly string[], width: number): string[] {
  const { label, value, unit, notes } = figure
  const parts = [intervalOf(figure), ...notes, ...more].filter((part) => part !== undefined)
  const column = labelWidth + (value === undefined ? 0 : valueWidth)
  const [first = '', ...rest] = packed(parts.map(onOneLine), '; ', width - column)
  const text = value === undefined ? '' : value === null ? 'none' : unitText(value, unit)
  const head =
    styled('dim', onOneLine(label).padEnd(labelWidth)) +
    (value === undefined ? '' : styled('bold', text.padEnd(valueWidth)))
  return [`${head}${first}`.trimEnd(), ...rest.map((line) => ' '.repeat(column) + line)]
}

function intervalOf({ interval, value = null, unit }: ReportFigure): string | undefined {
  if (interval === undefined) return undefined
  return intervalText({ ...interval, value }, unit === 'share' ? 'share' : 'plain')
}

function timeNotes({ durationMs, done }: ShownRunState): string[] {
  if (durationMs <= 0) return []
  const rate = done / (durationMs / 1000)
  return [`${formatDuration(durationMs)} in all, ${rate.toFixed(rate < 10 ? 2 : 1)} rollouts/s`]
}
