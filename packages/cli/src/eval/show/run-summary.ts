import { formatCount, formatDuration, formatQuantity } from '@osmosis/eval'
import {
  findings,
  reportFigures,
  rolloutName,
  runStatistics,
  unitText,
  type FigureKey,
  type ReportFigure,
  type RunManifest,
} from '@osmosis/eval/analysis'

import { workingFolder } from '../../command/command-context.ts'
import {
  cutTo,
  onOneLine,
  packed,
  styled,
  wrapped,
  commandLines,
  quoted,
  shortLine,
  withCommand,
} from '../../command/terminal-text.ts'
import { failureKinds, kindLines } from './failure-lines.ts'
import { fewestRows, intervalText } from './figure-text.ts'
import type { ReportedRun, ShownItems, ShownRunState } from './shown-run.ts'

/**
 * The result of a run in about ten lines: the verdict, the main figures and the next three commands.
 * Without a line feed at the end.
 *
 * @param showPlan - whether to say what was evaluated; `eval run` has printed that at its start
 */
export function runSummary(
  run: ReportedRun,
  { width, showPlan }: { readonly width: number; readonly showPlan: boolean },
): string {
  return [
    ...statusLines(run, width, verdictFacts(run.shown)),
    ...(showPlan ? planLines(run, width) : []),
    ...progressLines(run.state, width),
    ...mainFigureLines(run, width),
    '',
    ...browserLines(run.shown),
    ...failureCommandLines(run.shown, width),
    ...lastCommandLines(run),
  ].join('\n')
}

/** What the first line says beside the name and the status. */
function verdictFacts(shown: ShownItems): string[] {
  const { events, table } = shown
  const failed = events.filter(({ status }) => status === 'failed').length
  const suspicious = findings(table).find(({ key }) => key === 'suspicious')?.count ?? 0
  const readiness = readinessText(shown)
  return [
    ...(failed === 0
      ? []
      : [`${formatCount(failed)} of ${formatQuantity(events.length, 'rollout')} failed`]),
    ...(suspicious === 0 ? [] : [`${formatCount(suspicious)} suspicious`]),
    ...(readiness === undefined ? [] : [`ready to train: ${readiness}`]),
  ]
}

/** What a trainer would get: `yes`, `yes, with losses`, `no` or `not known`; undefined when no rollout has ended. */
function readinessText({ table }: ShownItems): string | undefined {
  const { stats, behaviour } = runStatistics(table)
  const { no_value: noValue, no_calls: noCalls, cut_off: cut, rewritten, skipped } = behaviour
  const rollouts = table.size - skipped
  if (rollouts === 0) return undefined
  const { value, rows } = stats.gradient
  const nothingToLearn = value === 0 || noValue.items === rollouts || noCalls.items > 0
  if (nothingToLearn) return styled('red', 'no')
  // One attempt per row says nothing about a training signal, and neither do few rows.
  if (value === null || rows < fewestRows) return 'not known'
  const lost = noValue.items + cut.items + rewritten.items
  return lost > 0 ? styled('yellow', 'yes, with losses') : styled('green', 'yes')
}

/** The name of the run and its status, with facts behind them. */
export function statusLines(
  { state: { status }, shown: { name } }: ReportedRun,
  width: number,
  facts: readonly string[] = [],
): string[] {
  const head = `${name}  ${status}`
  const [first = '', ...more] = packed([head, ...facts], ' · ', width)
  if (!first.startsWith(head)) return [first, ...more]
  const colour = { finished: 'green', running: 'cyan', incomplete: 'yellow' } as const
  const title = `${styled('bold', name)}  ${styled(colour[status], status)}`
  return [`${title}${first.slice(head.length)}`, ...more]
}

/** What was evaluated, with which model, and how many rollouts that makes. */
export function planLines({ shown: { reader, table } }: ReportedRun, width: number): string[] {
  const { rows, n } = reader.manifest
  const { rollout, dataset, model } = table.document
  const facts = [
    ...[rollout, dataset, model].map(onOneLine),
    `${formatQuantity(rows.length, 'row')} × ${formatQuantity(n, 'attempt')} = ${formatQuantity(rows.length * n, 'rollout')}`,
  ]
  return packed(facts, ' · ', width)
}

/** How many rollouts have ended, and why no more have; nothing for a finished run. */
export function progressLines(
  { status, done, total, reason }: ShownRunState,
  width: number,
): string[] {
  if (status === 'finished') return []
  return [
    `${formatCount(done)} of ${formatCount(total)} done`,
    ...(reason === null
      ? []
      : wrapped(reasonSentence(reason), width).map((line) => styled('yellow', line))),
  ]
}

/** The reason why a run is incomplete, from `progress.json`. */
export function reasonSentence(reason: string): string {
  return reason === 'interrupted' ? 'It was interrupted.' : reason
}

const mainFigures: ReadonlySet<FigureKey> = new Set(['mean', 'pass_rate', 'gradient'])

/** Many tool errors: something other than the policy may be wrong. */
function isMainFigure({ key, isBad = false }: ReportFigure): boolean {
  return mainFigures.has(key) || (key === 'tool_errors' && isBad)
}

/** One line per figure; notes that do not fit are left to `--details`. */
function mainFigureLines({ state, shown: { table } }: ReportedRun, width: number): string[] {
  if (table.size === 0) return ['No rollout has ended yet.']
  const figures = reportFigures(table, runStatistics(table))
  const main = figures
    .filter(isMainFigure)
    .map((figure) => (figure.key === 'mean' ? { ...figure, notes: figure.notes.slice(1) } : figure))
  return [
    ...main.map((figure) => figureLines(figure, [], width)[0] ?? ''),
    costLine(state, figures),
  ]
}

/** What the run cost in all and how long it took. */
function costLine(state: ShownRunState, figures: readonly ReportFigure[]): string {
  const cost = figures.find(({ key }) => key === 'cost')?.notes.at(-1)
  const time = figures.find(({ key }) => key === 'time')?.value ?? null
  const times =
    state.durationMs > 0 || time === null
      ? timeNotes(state)
      : [`${unitText(time, 'seconds')} per rollout`]
  const label = cost === undefined ? 'Time' : 'Cost, time'
  return styled('dim', label.padEnd(labelWidth)) + [cost, ...times].filter(Boolean).join('; ')
}

const labelWidth = 13
const valueWidth = 9

/** A figure, with its interval and its notes on as many lines as they need. */
export function figureLines(
  figure: ReportFigure,
  more: readonly string[],
  width: number,
): string[] {
  const { label, value, unit, notes } = figure
  const parts = [figureInterval(figure), ...notes, ...more].filter((part) => part !== undefined)
  const column = labelWidth + (value === undefined ? 0 : valueWidth)
  const [first = '', ...rest] = packed(parts.map(onOneLine), '; ', width - column)
  const text = value === undefined ? '' : value === null ? 'none' : unitText(value, unit)
  const head =
    styled('dim', onOneLine(label).padEnd(labelWidth)) +
    (value === undefined ? '' : styled('bold', text.padEnd(valueWidth)))
  return [`${head}${first}`.trimEnd(), ...rest.map((line) => ' '.repeat(column) + line)]
}

/** The interval of a figure as text; undefined without one. */
export function figureInterval({ interval, value = null, unit }: ReportFigure): string | undefined {
  if (interval === undefined) return undefined
  return intervalText({ ...interval, value }, unit === 'share' ? 'share' : 'plain')
}

/** How long the run took, and how many rollouts ended per second. */
export function timeNotes({ durationMs, done }: ShownRunState): string[] {
  if (durationMs <= 0) return []
  const rate = done / (durationMs / 1000)
  return [`${formatDuration(durationMs)} in all, ${rate.toFixed(rate < 10 ? 2 : 1)} rollouts/s`]
}

/** A label in front of a command, as wide as the longest of them. */
export function commandLabel(label: string): string {
  return styled('dim', `${label.padEnd('In the browser'.length)} `)
}

/** The command that opens the run in a browser. */
export function browserLines({ command }: ShownItems): string[] {
  return withCommand(commandLabel('In the browser'), ['eval', 'view', command])
}

/** The command that shows the first rollout of the most frequent failure, else the first that did not pass. */
function failureCommandLines(shown: ShownItems, width: number): string[] {
  const { command, events } = shown
  const [kind] = failureKinds(shown)
  if (kind === undefined) {
    const first = firstNotPassed(shown)
    if (first === undefined) return []
    return withCommand(commandLabel('First failure'), ['eval', 'show', command, first])
  }
  // Without a reward the cause is all that there is to read.
  if (events.every(({ reward }) => reward === null)) return kindLines(kind, shown, width)
  const { type, count, message, item } = kind
  const text = `First failure  ${formatCount(count)} × ${onOneLine(type)}: ${shortLine(message)}`
  return [styled('red', cutTo(text, width)), ...commandLines(['eval', 'show', command, item])]
}

/** `12.1`: the first rollout that did not pass. */
export function firstNotPassed({ table, events }: ShownItems): string | undefined {
  const event = events.find(({ source_row_index: row, run_index: attempt }) => {
    const item = table.find(row, attempt)
    return item !== undefined && !table.passed(item)
  })
  return event && rolloutName(event)
}

/** The command that resumes the run, else that compares it with an earlier run, else that prints its details. */
function lastCommandLines(run: ReportedRun): string[] {
  const resume = resumeLines(run)
  if (resume.length > 0) return resume
  const { command } = run.shown
  if (run.earlier !== undefined) {
    return withCommand(commandLabel('Compare'), ['eval', 'compare', run.earlier, command])
  }
  return withCommand(commandLabel('More figures'), ['eval', 'show', command, '--details'])
}

/** The command that resumes an incomplete run; nothing for any other. */
export function resumeLines({ state, shown, resumeArguments }: ReportedRun): string[] {
  if (state.status !== 'incomplete') return []
  const label = commandLabel('Continue')
  if (resumeArguments !== undefined) return withCommand(label, resumeArguments)
  return storedResumeLines(label, shown.reader.manifest)
}

/** The command in the manifest; in a run without one, the inputs that are known. */
function storedResumeLines(
  label: string,
  { provenance, inputs, run_name: name }: RunManifest,
): string[] {
  const { resume: stored, config } = provenance
  if (stored === undefined) {
    const { code, dataset } = inputs
    const source = config === null ? ['-m', code.entrypoint, '-d', dataset.name] : [config]
    const lines = withCommand(label, ['eval', 'run', ...source, '--name', name])
    return [...lines, styled('dim', '  and the flags it was started with')]
  }
  if (stored.folder === workingFolder()) return withCommand(label, stored.arguments)
  return [
    `${label} ${styled('cyan', `cd ${quoted(stored.folder)} &&`)}`,
    ...commandLines(stored.arguments),
  ]
}
