import {
  formatCount,
  formatDuration,
  formatQuantity,
  fewestRows,
  findings,
  reportFigures,
  rolloutName,
  runStatistics,
  unitText,
  type FigureKey,
  type ReportFigure,
} from '@osmosis/eval/analysis'

import { workingFolder } from '../../command/command-context.ts'
import {
  indented,
  type Block,
  dim,
  type Facts,
  heading,
  look,
  nextCommand,
  nextLabel,
  reportText,
  type Section,
  type Text,
} from '../../command/output/report.ts'
import { type Cell, shortLine } from '../../command/terminal-text.ts'
import { failureKinds, kindSection } from './failure-lines.ts'
import { intervalText } from './figure-text.ts'
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
  const { shown, state } = run
  const report = [
    [...headSection(run, showPlan), ...mainFigures(shown, state)],
    [browserCommand(shown), ...failureCommands(shown), ...lastCommands(run)],
  ]
  return reportText(report, width)
}

/** What the first line says beside the name and the status. */
function verdictFacts(shown: ShownItems): Text[] {
  const { events, table } = shown
  const failed = events.filter(({ status }) => status === 'failed').length
  const suspicious = findings(table).find(({ key }) => key === 'suspicious')?.count ?? 0
  const readiness = readinessText(shown)
  return [
    ...(failed === 0
      ? []
      : [`${formatCount(failed)} of ${formatQuantity(events.length, 'rollout')} failed`]),
    ...(suspicious === 0 ? [] : [`${formatCount(suspicious)} suspicious`]),
    ...(readiness === undefined ? [] : [['ready to train: ', readiness]]),
  ]
}

/**
 * What a trainer would get: `yes`, `yes, with losses` and how many rollouts are lost by what, `no`, or why it is not known; undefined when no rollout
 * has ended.
 */
function readinessText({ table }: ShownItems): Cell | string | undefined {
  const { stats, behaviour } = runStatistics(table)
  const { no_value: noValue, no_calls: noCalls, cut_off: cut, rewritten, skipped } = behaviour
  const rollouts = table.size - skipped
  if (rollouts === 0) return undefined
  const { value, rows } = stats.gradient
  const nothingToLearn = value === 0 || noValue.items === rollouts || noCalls.items > 0
  if (nothingToLearn) return look('no', 'red')
  if (value === null) return 'not known, because no row has several attempts'
  if (rows < fewestRows) return `not known with fewer than ${fewestRows} rows`
  const losses = [
    [noValue.items, 'without a reward'],
    [cut.items, 'cut off'],
    [rewritten.items, 'with a rewritten history'],
  ] as const
  const named = losses.flatMap(([items, what]) =>
    items === 0 ? [] : [`${formatCount(items)} ${what}`],
  )
  return named.length === 0
    ? look('yes', 'green')
    : look(`yes, with losses: ${named.join(', ')}`, 'yellow')
}

const statusFormats = { finished: 'green', running: 'cyan', incomplete: 'yellow' } as const

/** The name of the run, its status and whether a training can use it; what was evaluated, and how far it is. */
export function headSection({ state, shown }: ReportedRun, showPlan = true): Section {
  const { name, reader, table } = shown
  const { status, done, total, reason } = state
  const { rows, n } = reader.manifest
  const { rollout, dataset, model } = table.document
  const title: Text = [heading(name), '  ', look(status, statusFormats[status])]
  const size = `${formatQuantity(rows.length, 'row')} × ${formatQuantity(n, 'attempt')} = ${formatQuantity(rows.length * n, 'rollout')}`
  return [
    { facts: [title, ...verdictFacts(shown)] },
    showPlan ? { facts: [rollout, dataset, model, size] } : undefined,
    status === 'finished' ? undefined : `${formatCount(done)} of ${formatCount(total)} done`,
    status === 'finished' || reason === null ? undefined : look(reasonSentence(reason), 'yellow'),
  ]
}

/** The reason why a run is incomplete, from `progress.json`. */
export function reasonSentence(reason: string): string {
  return reason === 'interrupted' ? 'It was interrupted.' : reason
}

export const nothingEnded: Block = 'No rollout has ended yet.'

const mainFigureKeys: ReadonlySet<FigureKey> = new Set(['mean', 'pass_rate', 'gradient'])

/** Many tool errors: something other than the policy may be wrong. */
function isMainFigure({ key, isBad = false }: ReportFigure): boolean {
  return mainFigureKeys.has(key) || (key === 'tool_errors' && isBad)
}

/** The figures of a run, without the number of its rollouts and rows, which the first lines of a report have. */
export function figuresOf({ table }: ShownItems): ReportFigure[] {
  return reportFigures(table, runStatistics(table)).map((each) =>
    each.key === 'mean' ? { ...each, notes: each.notes.slice(1) } : each,
  )
}

/** One line per figure; notes that do not fit are left to `--details`. Then what it cost in all, and how long it took. */
function mainFigures(shown: ShownItems, state: ShownRunState): Section {
  if (shown.table.size === 0) return [nothingEnded]
  const figures = figuresOf(shown)
  const cost = figures.find(({ key }) => key === 'cost')?.notes.at(-1)
  const time = figures.find(({ key }) => key === 'time')?.value ?? null
  const times =
    state.durationMs > 0 || time === null
      ? timeNotes(state)
      : [`${unitText(time, 'seconds')} per rollout`]
  return [
    ...figures.filter(isMainFigure).map((each) => ({ ...runFigure(each), isBrief: true })),
    cost === undefined
      ? figure('Time', undefined, times)
      : figure('Cost, time', undefined, [cost, ...times]),
  ]
}

/** A figure, with its interval and its notes. */
export function runFigure(shown: ReportFigure, more: readonly string[] = []): Facts {
  const { label, value, unit, notes } = shown
  const amount = value === null ? 'none' : value === undefined ? undefined : unitText(value, unit)
  const interval = figureInterval(shown)
  return figure(label, amount, [...(interval === undefined ? [] : [interval]), ...notes, ...more])
}

function figure(label: string, value: string | undefined, notes: readonly string[]): Facts {
  const shown = value === undefined ? [] : [heading(value.padEnd(9))]
  return { facts: notes, separator: '; ', head: [dim(label.padEnd(13)), ...shown] }
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

/** The command that opens the run in a browser. */
export function browserCommand({ command }: ShownItems): Block {
  return nextCommand('In the browser', ['eval', 'view', command])
}

/** The command that shows the first rollout of the most frequent failure, else the first that did not pass. */
function failureCommands(shown: ShownItems): Section {
  const { command, events } = shown
  const [kind] = failureKinds(shown)
  if (kind === undefined) {
    const first = firstNotPassed(shown)
    return first === undefined
      ? []
      : [nextCommand('First failure', ['eval', 'show', command, first])]
  }
  // Without a reward the cause is all that there is to read.
  if (events.every(({ reward }) => reward === null)) return kindSection(kind, shown)
  const { type, count, message, item } = kind
  const cause = `${formatCount(count)} × ${type}: ${shortLine(message)}`
  const cells = ['First failure', cause].map((text) => look(text, 'red'))
  return [
    { head: [], table: [cells], cutsLast: true },
    { command: ['eval', 'show', command, item] },
  ]
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
function lastCommands(run: ReportedRun): Section {
  const resume = resumeSection(run)
  if (resume.length > 0) return resume
  const { command } = run.shown
  return [
    run.earlier === undefined
      ? nextCommand('More figures', ['eval', 'show', command, '--details'])
      : nextCommand('Compare', ['eval', 'compare', run.earlier, command]),
  ]
}

/** The command that resumes an incomplete run; nothing for any other. */
export function resumeSection({ state, shown, resumeArguments }: ReportedRun): Section {
  if (state.status !== 'incomplete') return []
  const label = nextLabel('Continue')
  if (resumeArguments !== undefined) return [{ command: resumeArguments, label: label }]
  const { provenance, inputs, run_name: name } = shown.reader.manifest
  const { resume: stored, config } = provenance
  if (stored !== undefined) {
    const { folder } = stored
    return [
      {
        command: stored.arguments,
        label: label,
        folder: folder === workingFolder() ? undefined : folder,
      },
    ]
  }
  // The manifest has no command, but the inputs.
  const { code, dataset } = inputs
  const source = config === null ? ['-m', code.entrypoint, '-d', dataset.name] : [config]
  return [
    { command: ['eval', 'run', ...source, '--name', name], label: label },
    indented(dim('and the flags it was started with')),
  ]
}
