import {
  fewestRows,
  points,
  type FigureKey,
  type ReportFigure,
  reportFigures,
  type RunStatistics,
  type RunTable,
  unitText,
} from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { intervalText, margin, unknown } from '../format.ts'

/** The figures on the page; the others are in the terminal's report. */
const shown: readonly FigureKey[] = [
  'mean',
  'pass_rate',
  'pass_at_k',
  'gradient',
  'tool_errors',
  'cut_off',
  'tokens',
]

/** The figures of a run; a click on one filters by its rollouts. */
export function Figures({
  table,
  statistics,
  onQuery,
}: {
  table: RunTable
  statistics: RunStatistics | null
  onQuery: (query: string) => void
}): JSX.Element {
  return (
    <div class="figures" role="group" aria-label="Figures">
      {statistics === null
        ? placeholders(table)
        : figuresOf(table, statistics).map((figure) => (
            <button key={figure.label} class="figure" onClick={() => onQuery(figure.query)}>
              <div class="label">{figure.label}</div>
              <div class={`value${figure.isBad === true ? ' alarm' : ''}`}>
                {figure.value == null ? unknown : unitText(figure.value, figure.unit)}
                <small>{intervalOf(figure)}</small>
              </div>
              <div class="sub">{figure.notes[0] ?? '\u00a0'}</div>
            </button>
          ))}
    </div>
  )
}

/** As many as there will be figures, so that the layout does not move. */
function placeholders({ document }: RunTable): JSX.Element[] {
  return Array.from({ length: document.attempts > 1 ? 7 : 6 }, (_, index) => (
    <button key={index} class="figure">
      <div class="label">{['Reward', 'Pass rate'][index] ?? '\u00a0'}</div>
      <div class="value">…</div>
      <div class="sub">{'\u00a0'}</div>
    </button>
  ))
}

/** The pass@k with the largest known k; time instead of tokens where none were counted. */
function figuresOf(table: RunTable, statistics: RunStatistics): ReportFigure[] {
  const figures = reportFigures(table, statistics)
  return shown.flatMap((key) => {
    const same = figures.filter((figure) => figure.key === key)
    const found = same.findLast(({ value = null }) => value !== null) ?? same.at(-1)
    if (found !== undefined) return found
    return key === 'tokens' ? figures.filter((figure) => figure.key === 'time') : []
  })
}

function intervalOf({ value = null, unit, interval }: ReportFigure): string | undefined {
  if (value === null || interval?.ci95 == null) return undefined
  if (unit === 'share') return margin(value, interval.ci95, points)
  if (interval.rows < fewestRows) return 'few rows'
  return intervalText(value, interval.ci95, (each) => each.toFixed(3))
}
