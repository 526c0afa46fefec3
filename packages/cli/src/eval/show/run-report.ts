import { formatCount } from '@osmosis/eval'
import {
  findings,
  meanValue,
  passRate,
  reportFigures,
  runStatistics,
  RunTable,
  type Finding,
} from '@osmosis/eval/analysis'

import {
  onOneLine,
  plain,
  styled,
  tableLines,
  wrapped,
  type Cell,
  commandLines,
  withCommand,
} from '../../command/terminal-text.ts'
import { failureLines } from './failure-lines.ts'
import { intervalText, valueText } from './figure-text.ts'
import {
  browserLines,
  commandLabel,
  figureInterval,
  figureLines,
  firstNotPassed,
  planLines,
  progressLines,
  resumeLines,
  statusLines,
  timeNotes,
} from './run-summary.ts'
import type { ReportedRun, ShownItems, ShownRunState } from './shown-run.ts'

/**
 * Everything that there is to say about a run, in blocks: figures, scores, failures, findings, commands. Without a
 * line feed at the end.
 */
export function runReport(run: ReportedRun, width: number): string {
  const { shown, state } = run
  const sections = [
    [...statusLines(run, width), ...planLines(run, width), ...progressLines(state, width)],
    allFigureLines(shown, state, width),
    scoreLines(shown),
    failureLines(shown, width),
    findingLines(shown, width),
    commandSection(run),
  ]
  return sections
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')
}

/** The figures, with the duration of the run. */
function allFigureLines({ table }: ShownItems, state: ShownRunState, width: number): string[] {
  if (table.size === 0) return ['No rollout has ended yet.']
  // The first lines of the report have the number of rollouts and rows.
  const figures = reportFigures(table, runStatistics(table))
    .filter(({ isZero = false }) => !isZero)
    .map((figure) => (figure.key === 'mean' ? { ...figure, notes: figure.notes.slice(1) } : figure))
  const hasIntervals = figures.some((figure) => figureInterval(figure) !== undefined)
  const lines = figures.flatMap((figure) =>
    figureLines(figure, figure.key === 'time' ? timeNotes(state) : [], width),
  )
  if (!hasIntervals) return lines
  return [...lines, styled('dim', 'Between: 95 % confidence interval, counted by row.')]
}

/** A table of the other eval functions; none without any. */
function scoreLines({ table }: ShownItems): string[] {
  const names = Object.keys(table.document.columns.scores).filter((name) => name !== table.measure)
  const rows = names.map((name): (Cell | string)[] => {
    const own = new RunTable(table.document, { measure: name })
    const graded = own.values.filter((value) => typeof value === 'number').length
    const mean = meanValue(own.groups)
    const rate = passRate(own.groups)
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

/** Findings of other sections: failures, and the commands at the end. */
const inOtherSections = new Set<Finding['key']>(['failed', 'notpassed'])

function findingLines(run: ShownItems, width: number): string[] {
  const found = findings(run.table).filter(({ key }) => !inOtherSections.has(key))
  if (found.length === 0) return []
  return [
    styled('bold', 'Look at first'),
    ...found.flatMap(({ title, detail, tone, query }) => {
      const mark = { bad: styled('red', '!'), warn: styled('yellow', '!'), info: '·' }[tone]
      const [line = '', ...more] = wrapped(`${onOneLine(title)}. ${onOneLine(detail)}`, width - 2)
      const command = commandLines(['eval', 'show', run.command, '--filter', query])
      return [`${mark} ${line}`, ...more.map((text) => `  ${text}`), ...command]
    }),
  ]
}

function commandSection(run: ReportedRun): string[] {
  const { shown } = run
  const failure = firstNotPassed(shown)
  const show = ['eval', 'show', shown.command]
  return [
    ...resumeLines(run),
    ...browserLines(shown),
    ...(failure === undefined
      ? []
      : [
          ...withCommand(commandLabel('First failure'), [...show, failure]),
          ...withCommand(commandLabel('All failures'), [...show, '--failed']),
        ]),
    `${commandLabel('Folder')} ${plain(shown.reader.location)}`,
  ]
}
