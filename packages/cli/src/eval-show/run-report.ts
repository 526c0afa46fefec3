import path from 'node:path'

import { formatCount, formatQuantity, type RunStore } from '@osmosis/eval'
import {
  compareRuns,
  type Finding,
  findings,
  rolloutName,
  type RunManifest,
} from '@osmosis/eval/analysis'

import { failureLines } from './failure-lines.ts'
import { historyBreaks, type HistoryBreak } from './history-breaks.ts'
import { readinessLines } from './readiness-lines.ts'
import { figureLines, scoreLines } from './report-figures.ts'
import { commandLines, quoted, withCommand } from './shell-command.ts'
import {
  endedModel,
  openShownRun,
  type RunFacts,
  runState,
  type ShownRunState,
  type ShownModel,
  type ShownRun,
} from './shown-run.ts'
import { onOneLine, outputWidth, packed, plain, styled, wrapped } from './terminal-text.ts'
import { workingFolder } from '../command/surroundings.ts'

/** A model that a run evaluated, with what is read of its conversations. */
interface ReportedModel extends ShownModel {
  readonly breaks: readonly HistoryBreak[]
}

/** A run with the models that it evaluated. */
export interface ReportedRun {
  readonly state: ShownRunState
  /** What is reported first; behind it the baseline, where there is one. */
  readonly models: readonly [ReportedModel, ...ReportedModel[]]
  /** The words behind `osmosis` that go on with it. Default: those in its manifest. */
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
  const labels = ['Go on', 'What did not pass', 'The first of them', 'In the browser', 'Folder']
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
