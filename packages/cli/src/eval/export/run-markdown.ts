import { formatCount, formatQuantity, formatShare } from '@osmosis/eval'
import {
  compareRuns,
  passRate,
  reportFigures,
  runStatistics,
  unitText,
  type FigureKey,
} from '@osmosis/eval/analysis'

import { osmosisCommand } from '../../command/terminal-text.ts'
import { figureInterval, reasonSentence } from '../show/run-summary.ts'
import { itemName } from '../show/shown-items.ts'
import type { ReportedRun, ShownModel } from '../show/shown-run.ts'
import { markdownCode, markdownTable, markdownText } from './markdown-text.ts'
import { missedItems, verdict } from './missed-items.ts'

const shownFigures: ReadonlySet<FigureKey> = new Set([
  'mean',
  'pass_rate',
  'gradient',
  'tokens',
  'time',
  'cost',
])
const mostMissed = 10

/** The result of a run as Markdown, e.g. for a page of a CI service: figures, and what did not pass. */
export function runMarkdown({ state, models }: ReportedRun): string {
  const [model, baseline] = models
  const { table, name } = model
  const { value } = passRate(table)
  const result = value === null ? 'no result' : `${formatShare(value)} passed`
  const paragraphs = [
    [`### ${markdownText(name)}: ${result}`],
    state.status === 'finished'
      ? []
      : [
          `**${formatCount(state.done)} of ${formatCount(state.total)} rollouts have ended.** ${markdownText(reasonSentence(state.reason ?? ''))}`.trimEnd(),
        ],
    table.size === 0 ? [] : figureLines(model),
    baseline === undefined || table.size === 0 ? [] : baselineLines(model, baseline),
    missedLines(model),
  ]
  return paragraphs
    .filter((lines) => lines.length > 0)
    .map((lines) => `${lines.join('\n')}\n`)
    .join('\n')
}

function figureLines({ table }: ShownModel): string[] {
  const rows = reportFigures(table, runStatistics(table))
    .filter(({ key }) => shownFigures.has(key))
    .map((figure) => [
      figure.label,
      typeof figure.value === 'number' ? unitText(figure.value, figure.unit) : 'none',
      [figureInterval(figure), ...figure.notes].filter(Boolean).join('; '),
    ])
  return markdownTable([markdownText(table.document.model), '', ''], rows, [1])
}

function baselineLines(own: ShownModel, baseline: ShownModel): string[] {
  const { verdict: found, difference } = compareRuns(baseline.table, own.table)
  if (difference.rows === 0) return []
  const model = markdownText(baseline.table.document.model)
  return [`Against the baseline (${model}): **${found.lead}**${found.rest}`]
}

/** What did not pass, and the command that shows a conversation. */
function missedLines(model: ShownModel): string[] {
  const missed = missedItems(model, model.events)
  const [first] = missed
  if (first === undefined) return []
  const command = osmosisCommand('eval', 'show', model.command, itemName(first))
  return [
    `${formatQuantity(missed.length, 'rollout')} did not pass. ${markdownCode(command)} shows one:`,
    '',
    ...missed.slice(0, mostMissed).map((one) => {
      const { event } = one
      const says =
        event.status === 'failed' || event.summary === '' ? '' : markdownCode(event.summary)
      return `- ${itemName(one)}: ${markdownCode(verdict(one))} ${says}`.trimEnd()
    }),
    ...(missed.length > mostMissed
      ? [`- and ${formatCount(missed.length - mostMissed)} more`]
      : []),
  ]
}
