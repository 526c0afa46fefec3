import {
  formatCount,
  findings,
  meanValue,
  passRate,
  RunTable,
  type Finding,
} from '@osmosis/eval/analysis'

import {
  dim,
  heading,
  look,
  nextCommand,
  nextLabel,
  reportText,
  type Section,
} from '../../command/output/report.ts'
import type { Cell } from '../../command/terminal-text.ts'
import { failureSections } from './failure-lines.ts'
import { intervalText, valueText } from './figure-text.ts'
import {
  browserCommand,
  runFigure,
  figureInterval,
  figuresOf,
  firstNotPassed,
  headSection,
  nothingEnded,
  resumeSection,
  timeNotes,
} from './run-summary.ts'
import type { ReportedRun, ShownItems, ShownRunState } from './shown-run.ts'

/**
 * Everything that there is to say about a run: figures, scores, failures, findings, commands. Without a line feed at the
 * end.
 */
export function runReport(run: ReportedRun, width: number): string {
  const { shown, state } = run
  const report = [
    headSection(run),
    figureSection(shown, state),
    scoreSection(shown),
    ...failureSections(shown),
    findingSection(shown),
    commandSection(run),
  ]
  return reportText(report, width)
}

/** The figures, with the duration of the run. */
function figureSection(shown: ShownItems, state: ShownRunState): Section {
  if (shown.table.size === 0) return [nothingEnded]
  const figures = figuresOf(shown).filter(({ isZero = false }) => !isZero)
  const blocks = figures.map((figure) =>
    runFigure(figure, figure.key === 'time' ? timeNotes(state) : []),
  )
  if (figures.every((figure) => figureInterval(figure) === undefined)) return blocks
  return [...blocks, dim('Between: 95 % confidence interval, counted by row.')]
}

/** A table of the other eval functions; none without any. */
function scoreSection({ table: { document, measure, size } }: ShownItems): Section {
  const names = Object.keys(document.columns.scores).filter((name) => name !== measure)
  const rows = names.map((name): (Cell | string)[] => {
    const own = new RunTable(document, { measure: name })
    const graded = own.values.filter((value) => typeof value === 'number').length
    const mean = meanValue(own.groups)
    const rate = passRate(own.groups)
    return [
      name,
      heading(valueText(mean, 'plain')),
      intervalText(mean, 'plain') ?? '',
      valueText(rate, 'share'),
      intervalText(rate, 'share') ?? '',
      `${formatCount(graded)} of ${formatCount(size)}`,
    ]
  })
  const head = ['Eval function', 'Mean', '', 'Passed', '', 'Scored']
  return [{ head, table: rows, right: [1, 3] }]
}

/** Findings of other sections: failures, and the commands at the end. */
const inOtherSections = new Set<Finding['key']>(['failed', 'notpassed'])

const marks = {
  bad: look('! ', 'red'),
  warn: look('! ', 'yellow'),
  info: '· ',
}

function findingSection(run: ShownItems): Section {
  const found = findings(run.table).filter(({ key }) => !inOtherSections.has(key))
  if (found.length === 0) return []
  return [
    heading('Look at first'),
    ...found.flatMap(({ title, detail, tone, query }) => [
      { facts: [`${title}. ${detail}`], head: marks[tone] },
      { command: ['eval', 'show', run.command, '--filter', query] },
    ]),
  ]
}

function commandSection(run: ReportedRun): Section {
  const { shown } = run
  const failure = firstNotPassed(shown)
  const show = ['eval', 'show', shown.command]
  return [
    ...resumeSection(run),
    browserCommand(shown),
    ...(failure === undefined
      ? []
      : [
          nextCommand('First failure', [...show, failure]),
          nextCommand('All failures', [...show, '--failed']),
        ]),
    { facts: [shown.reader.location], head: [nextLabel('Folder'), ' '] },
  ]
}
