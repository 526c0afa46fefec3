import { formatCount, formatDuration, formatQuantity } from '@osmosis/eval'
import {
  compareRuns,
  findings,
  reportFigures,
  rolloutName,
  runStatistics,
  unitText,
  type FigureKey,
  type ReportFigure,
  type RunManifest,
} from '@osmosis/eval/analysis'

import { oneLine, workingFolder } from '../../command/surroundings.ts'
import {
  cutTo,
  onOneLine,
  packed,
  styled,
  wrapped,
  commandLines,
  quoted,
  withCommand,
} from '../../command/terminal-text.ts'
import { failureKinds, kindLines } from './failure-lines.ts'
import { fewestRows, intervalText } from './figure-text.ts'
import type { ReportedRun, ShownModel, ShownRunState } from './shown-run.ts'

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
  const [model] = run.models
  return [
    ...statusLines(run, width, verdictFacts(run)),
    ...(showPlan ? planLines(run, width) : []),
    ...progressLines(run.state, width),
    ...mainFigureLines(run, width),
    '',
    ...browserLines(model),
    ...failureCommandLines(run, width),
    ...lastCommandLines(run, width),
  ].join('\n')
}

/** What the first line says beside the name and the status. */
function verdictFacts({ models }: ReportedRun): string[] {
  const [model] = models
  const events = models.flatMap((one) => one.events)
  const failed = events.filter(({ status }) => status === 'failed').length
  const unearned = findings(model.table).find(({ key }) => key === 'unearned')?.count ?? 0
  const readiness = readinessText(model)
  return [
    ...(failed === 0
      ? []
      : [`${formatCount(failed)} of ${formatQuantity(events.length, 'rollout')} failed`]),
    ...(unearned === 0 ? [] : [`possible reward hacking in ${formatCount(unearned)}`]),
    ...(readiness === undefined ? [] : [`ready to train: ${readiness}`]),
  ]
}

/** What a trainer would get: `yes`, `yes, with losses`, `no` or `not known`; undefined when no rollout has ended. */
function readinessText({ table }: ShownModel): string | undefined {
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
  { state: { status }, models: [{ name }] }: ReportedRun,
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
export function planLines({ models }: ReportedRun, width: number): string[] {
  const [{ reader, table }] = models
  const { rows, n } = reader.manifest
  const by = models.length === 1 ? '' : ` × ${models.length} models`
  const total = rows.length * n * models.length
  const facts = [
    onOneLine(table.document.rollout),
    onOneLine(table.document.dataset),
    models.map((model) => onOneLine(model.table.document.model)).join(' against '),
    `${formatQuantity(rows.length, 'row')} × ${formatQuantity(n, 'attempt')}${by} = ${formatQuantity(total, 'rollout')}`,
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
function mainFigureLines({ state, models }: ReportedRun, width: number): string[] {
  const [{ table }] = models
  if (table.size === 0) return ['No rollout has ended yet.']
  const figures = reportFigures(table, runStatistics(table))
  const main = figures
    .filter(isMainFigure)
    .map((figure) => (figure.key === 'mean' ? { ...figure, notes: figure.notes.slice(1) } : figure))
  return [...main.map((figure) => figureLines(figure, [], width)[0] ?? ''), costLine(state, models)]
}

/** What the run cost in all and how long it took. */
function costLine(state: ShownRunState, models: ReportedRun['models']): string {
  const all = models.map(({ table }) => reportFigures(table, runStatistics(table)))
  const costs = all.flatMap((figures) => {
    const note = figures.find(({ key }) => key === 'cost')?.notes.at(-1)
    return note === undefined ? [] : [note]
  })
  const time = all[0]?.find(({ key }) => key === 'time')?.value ?? null
  const times =
    state.durationMs > 0 || time === null
      ? timeNotes(state)
      : [`${unitText(time, 'seconds')} per rollout`]
  const label = costs.length === 0 ? 'Time' : 'Cost, time'
  return (
    styled('dim', label.padEnd(labelWidth)) +
    [costs.join(' and '), ...times].filter(Boolean).join('; ')
  )
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

/** The result of the comparison with the baseline, by pairs of rows, and the command that shows it. */
export function baselineLines({ models: [own, baseline] }: ReportedRun, width: number): string[] {
  if (baseline === undefined) return []
  const { verdict, difference } = compareRuns(baseline.table, own.table)
  if (difference.rows === 0) return []
  return [
    ...wrapped(`Against the baseline, pass rate: ${verdict.lead}${verdict.rest}`, width),
    ...commandLines(['eval', 'compare', baseline.command, own.command]),
  ]
}

/** A label in front of a command, as wide as the longest of them. */
export function commandLabel(label: string): string {
  return styled('dim', `${label.padEnd('In the browser'.length)} `)
}

/** The command that opens the run in a browser. */
export function browserLines({ command }: ShownModel): string[] {
  return withCommand(commandLabel('In the browser'), ['eval', 'view', command])
}

/** The command that shows the first rollout of the most frequent failure, else the first that did not pass. */
function failureCommandLines({ models }: ReportedRun, width: number): string[] {
  for (const model of models) {
    const [kind] = failureKinds(model)
    if (kind === undefined) continue
    // Without a reward the cause is all that there is to read.
    if (model.events.every(({ reward }) => reward === null)) return kindLines(kind, model, width)
    const { type, count, message, item } = kind
    const text = `First failure  ${formatCount(count)} × ${onOneLine(type)}: ${oneLine(onOneLine(message))}`
    return [
      styled('red', cutTo(text, width)),
      ...commandLines(['eval', 'show', model.command, item]),
    ]
  }
  const [model] = models
  const item = firstNotPassed(model)
  return item === undefined
    ? []
    : withCommand(commandLabel('First failure'), ['eval', 'show', model.command, item])
}

/** `12.1`: the first rollout that did not pass. */
export function firstNotPassed({ table, events }: ShownModel): string | undefined {
  const event = events.find(({ source_row_index: row, run_index: attempt }) => {
    const item = table.find(row, attempt)
    return item !== undefined && !table.passed(item)
  })
  return event && rolloutName({ ...event, model_tag: 'primary' })
}

/** The command that resumes the run, else that compares it with its baseline or an earlier run, else that prints its details. */
function lastCommandLines(run: ReportedRun, width: number): string[] {
  const resume = resumeLines(run)
  if (resume.length > 0) return resume
  const comparison = baselineLines(run, width)
  if (comparison.length > 0) return comparison
  const [{ command }] = run.models
  if (run.earlier !== undefined) {
    return withCommand(commandLabel('Compare'), ['eval', 'compare', run.earlier, command])
  }
  return withCommand(commandLabel('More figures'), ['eval', 'show', command, '--details'])
}

/** The command that resumes an incomplete run; nothing for any other. */
export function resumeLines({ state, models, resumeArguments }: ReportedRun): string[] {
  if (state.status !== 'incomplete') return []
  const label = commandLabel('Continue')
  if (resumeArguments !== undefined) return withCommand(label, resumeArguments)
  return storedResumeLines(label, models[0].reader.manifest)
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
