import path from 'node:path'

import { formatCount, formatQuantity, type RunStore, formatDuration } from '@osmosis/eval'
import {
  compareRuns,
  type Finding,
  findings,
  rolloutName,
  type RunManifest,
  RunTable,
  meanValue,
  passRate,
  reportFigures,
  runStatistics,
  unitText,
  type ReportFigure,
} from '@osmosis/eval/analysis'

import { workingFolder } from '../../command/surroundings.ts'
import {
  onOneLine,
  packed,
  styled,
  tableLines,
  type Cell,
  outputWidth,
  plain,
  wrapped,
} from '../../command/terminal-text.ts'
import { failureLines } from './failure-lines.ts'
import { intervalText, valueText } from './figure-text.ts'
import { historyBreaks, type HistoryBreak } from './history-breaks.ts'
import { readinessLines } from './readiness-lines.ts'
import { commandLines, quoted, withCommand } from './shell-command.ts'
import {
  type ShownRunState,
  type ShownModel,
  endedModel,
  openShownRun,
  type RunFacts,
  runState,
  type ShownRun,
} from './shown-run.ts'

const labelWidth = 13
const valueWidth = 9

/** The figures of one model, with what their intervals mean; `state` says how long it took. */
function figureLines(
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
function scoreLines({ table, reader }: ShownModel): string[] {
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

/** A model that a run evaluated, with what is read of its conversations. */
interface ReportedModel extends ShownModel {
  readonly breaks: readonly HistoryBreak[]
}

/** A run with the models that it evaluated. */
export interface ReportedRun {
  readonly state: ShownRunState
  /** What is reported first; behind it the baseline, where there is one. */
  readonly models: readonly [ReportedModel, ...ReportedModel[]]
  /** The words behind `osmosis` that continue with it. Default: those in its manifest. */
  readonly goOn?: readonly string[]
}

/**
 * The report of a run that this process has ended; without a line feed at the end. It takes what the
 * process has in its memory: a large run does not fit into it twice.
 */
export async function endedRunReport(
  { location, manifest, events }: Pick<RunStore, 'location' | 'manifest' | 'events'>,
  goOn: readonly string[],
): Promise<string> {
  const run: RunFacts = { location, manifest, events, name: path.basename(location) }
  const baseline =
    manifest.inputs.model.baseline === null
      ? []
      : [await reported(await endedModel(run, 'baseline'))]
  const models = [await reported(await endedModel(run, 'primary')), ...baseline] as const
  // Why it is incomplete is an error of the command, and stands on stderr.
  const state = { ...runState(run, false), reason: null }
  return runReport({ state, models, goOn }, outputWidth())
}

/**
 * Opens a run for its report.
 *
 * @throws OsmosisError with code `damaged_run`
 */
export async function openReportedRun(first: ShownRun): Promise<ReportedRun> {
  const { reader } = first
  const isWhole = first.name === reader.name
  const hasBaseline = isWhole && reader.manifest.inputs.model.baseline !== null
  const baseline = hasBaseline
    ? [await reported(await openShownRun({ location: reader.location, variant: 'baseline' }))]
    : []
  const models = [await reported(first), ...baseline] as const
  return { state: runState(reader, reader.writer() !== null), models }
}

async function reported<T extends ShownModel>(model: T): Promise<T & ReportedModel> {
  return { ...model, breaks: await historyBreaks(model.reader.location, model.events) }
}

/** The report of a run for people; without a line feed at the end. */
export function runReport(run: ReportedRun, width: number): string {
  const [first, ...others] = run.models
  const several = others.length > 0
  const sections = [
    headLines(run, width),
    ...run.models.flatMap((model) => {
      const lines = figureLines(model, several ? undefined : run.state, width)
      return [several ? [styled('bold', modelTitle(model)), ...lines] : lines, scoreLines(model)]
    }),
    ...others.map((baseline) => comparisonLines(baseline, first, width)),
    ...run.models.map((model) => failureLines(model, several, width)),
    ...run.models.map((model) => findingLines(model, several, width)),
    ...run.models.map((model) =>
      readinessLines(model, model.breaks, {
        of: several ? `: ${modelTitle(model)}` : '',
        width,
      }),
    ),
    footLines(run),
  ]
  return sections
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')
}

function headLines({ state, models: [first, ...others] }: ReportedRun, width: number): string[] {
  const { reader, table, name } = first
  const { rows, n } = reader.manifest
  const count = 1 + others.length
  const by = count === 1 ? '' : ` × ${count} models`
  const total = rows.length * n * count
  const facts = [
    onOneLine(table.document.rollout),
    onOneLine(table.document.dataset),
    [first, ...others].map((model) => onOneLine(model.table.document.model)).join(' against '),
    `${formatQuantity(rows.length, 'row')} × ${formatQuantity(n, 'attempt')}${by} = ${formatQuantity(total, 'rollout')}`,
  ]
  const done = `${formatCount(state.done)} of ${formatCount(state.total)} done`
  return [
    `${styled('bold', name)}  ${statusText(state)}`,
    ...packed(facts, ' · ', width),
    ...(state.status === 'finished' ? [] : [done]),
    ...(state.reason === null ? [] : reasonLines(state.reason, width)),
  ]
}

function reasonLines(reason: string, width: number): string[] {
  return wrapped(reasonSentence(reason), width).map((line) => styled('yellow', line))
}

/** Why a run is incomplete, as its process has left it behind. */
export function reasonSentence(reason: string): string {
  return reason === 'interrupted' ? 'It was interrupted.' : reason
}

function statusText({ status }: ShownRunState): string {
  if (status === 'finished') return styled('green', status)
  return styled(status === 'running' ? 'cyan' : 'yellow', status)
}

function modelTitle({ table: { document }, modelTag }: ShownModel): string {
  return `${onOneLine(document.model)}${modelTag === 'baseline' ? ' (baseline)' : ''}`
}

/** Pairs of rows, never two intervals. */
function comparisonLines(baseline: ShownModel, own: ShownModel, width: number): string[] {
  const { verdict, difference } = compareRuns(baseline.table, own.table)
  if (difference.rows === 0) return []
  const { lead, rest } = verdict
  return [
    ...wrapped(`Against the baseline, pass rate: ${lead}${rest}`, width),
    ...commandLines(['eval', 'compare', baseline.command, own.command]),
  ]
}

/** Failures have a section of their own, what matters to trainers too, and what did not pass a line below. */
const saidElsewhere = new Set<Finding['key']>([
  'failed',
  'notpassed',
  'rows',
  'cut',
  'rewritten',
  'nocalls',
])

function findingLines(run: ShownModel, several: boolean, width: number): string[] {
  const found = findings(run.table).filter(({ key }) => !saidElsewhere.has(key))
  if (found.length === 0) return []
  const of = several ? `: ${modelTitle(run)}` : ''
  return [
    styled('bold', `Look at first${of}`),
    ...found.flatMap(({ title, detail, tone, query }) => {
      const mark = { bad: styled('red', '!'), warn: styled('yellow', '!'), info: '·' }[tone]
      const [line = '', ...more] = wrapped(`${onOneLine(title)}. ${onOneLine(detail)}`, width - 2)
      const command = commandLines(['eval', 'show', run.command, '--filter', query])
      return [`${mark} ${line}`, ...more.map((text) => `  ${text}`), ...command]
    }),
  ]
}

/** The command in the manifest; without one there is only what decides the outcome of a run. */
function goOnLines(label: string, { provenance, inputs, run_name: name }: RunManifest): string[] {
  const { go_on: goOn, config } = provenance
  if (goOn === undefined) {
    const { code, dataset } = inputs
    const what = config === null ? ['-m', code.entrypoint, '-d', dataset.name] : [config]
    const lines = withCommand(label, ['eval', 'run', ...what, '--name', name])
    return [...lines, styled('dim', '  and the flags it began with')]
  }
  if (goOn.folder === workingFolder()) return withCommand(label, goOn.words)
  return [`${label} ${styled('cyan', `cd ${quoted(goOn.folder)} &&`)}`, ...commandLines(goOn.words)]
}

function footLines({ state, models: [run], goOn }: ReportedRun): string[] {
  const { reader, command } = run
  const failing = firstFailing(run)
  const labels = ['Continue', 'What did not pass', 'The first of them', 'In the browser', 'Folder']
  const wide = failing === undefined ? 'In the browser'.length : 'What did not pass'.length
  const [resume = '', all = '', first = '', browser = '', folder = ''] = labels.map((label) =>
    styled('dim', `${label.padEnd(wide)} `),
  )
  const show = ['eval', 'show', command]
  return [
    ...(state.status !== 'incomplete'
      ? []
      : goOn === undefined
        ? goOnLines(resume, reader.manifest)
        : withCommand(resume, goOn)),
    ...(failing === undefined
      ? []
      : [...withCommand(all, [...show, '--failed']), ...withCommand(first, [...show, failing])]),
    ...withCommand(browser, ['eval', 'view', command]),
    `${folder} ${plain(reader.location)}`,
  ]
}

/** `12.1`: the first that did not pass. */
function firstFailing({ table, events }: ShownModel): string | undefined {
  const failing = events.find(({ source_row_index: row, run_index: attempt }) => {
    const item = table.find(row, attempt)
    return item !== undefined && !table.passed(item)
  })
  return failing && rolloutName({ ...failing, model_tag: 'primary' })
}
