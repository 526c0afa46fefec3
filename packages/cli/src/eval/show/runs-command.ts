import { stripVTControlCharacters } from 'node:util'

import {
  formatCount,
  formatQuantity,
  type ListedRun,
  listRuns,
  listTrainings,
  readTrainingJournal,
} from '@osmosis/eval'
import {
  type Estimate,
  meanValue,
  passRate,
  type RunManifest,
  type TrainingRecord,
} from '@osmosis/eval/analysis'

import { printOut } from '../../command/command-context.ts'
import {
  type Cell,
  columnsOf,
  onOneLine,
  outputWidth,
  packed,
  styled,
  tableLines,
  wrapped,
} from '../../command/terminal-text.ts'
import type { EvalRunsFlags } from '../runs.ts'
import { agoText, briefText } from './figure-text.ts'
import { openShownRun, runsRoot, runState, type ShownRunState } from './shown-run.ts'
import { type FoundTraining, trainingsRoot } from '../training/find-training.ts'
import { heldOutRewards, stateColours, trainingState } from '../training/training-report.ts'

/** A run as the list has it. */
type RunSummary = {
  readonly name: string
  readonly location: string
} & (
  | {
      readonly manifest: RunManifest
      readonly state: ShownRunState
      /** `reward`, or the eval function that the figures are about. */
      readonly measure: string
      readonly mean: Estimate
      readonly passRate: Estimate
    }
  | { readonly manifest: null; readonly problem: string }
)

/** Lists the runs of a folder, the newest first, and the trainings beside it. Resolves with the exit code. */
export async function evalRunsCommand({ output, json }: EvalRunsFlags): Promise<number> {
  const root = await runsRoot(output)
  const runs: RunSummary[] = []
  for (const run of await listRuns(root)) runs.push(await summaryOf(run))
  const trainings = await trainingSummaries(root)
  if (json === true) {
    printOut(`${JSON.stringify({ runs: runs.map(toJson), trainings }, null, 2)}\n`)
    return 0
  }
  const width = outputWidth()
  const lists = [
    runs.length === 0
      ? wrapped(`There are no runs in ${root}. osmosis eval run starts one.`, width)
      : runLines(runs, width),
    ...(trainings.length === 0 ? [] : [trainingLines(trainings, width)]),
  ]
  printOut(`${lists.map((lines) => lines.join('\n')).join('\n\n')}\n`)
  return 0
}

async function summaryOf({ name, location, problem }: ListedRun): Promise<RunSummary> {
  if (problem !== null) return { name, location, manifest: null, problem }
  try {
    const { reader, table } = await openShownRun({ location, variant: undefined })
    const { measure, groups } = table
    const state = runState(reader, reader.writer() !== null)
    const figures = { measure, mean: meanValue(groups), passRate: passRate(groups) }
    return { name, location, manifest: reader.manifest, state, ...figures }
  } catch (error) {
    // A damaged journal is a fact about that run; the others are listed all the same.
    return { name, location, manifest: null, problem: (error as Error).message }
  }
}

function toJson(run: RunSummary): object {
  const { name, location } = run
  if (run.manifest === null) return { name, location, status: 'broken', problem: run.problem }
  const { manifest, state, measure, mean, passRate: rate } = run
  const { model, code, dataset } = manifest.inputs
  return {
    name,
    location,
    status: state.status,
    ...(state.reason === null ? {} : { incomplete_reason: state.reason }),
    created_at: manifest.created_at,
    model: model.name,
    rollout: code.rollout,
    dataset: dataset.name,
    rows: manifest.rows.length,
    n: manifest.n,
    done: state.done,
    total: state.total,
    measure,
    mean,
    pass_rate: rate,
  }
}

/** A table where it fits, else two lines for each run. */
function runLines(runs: readonly RunSummary[], width: number): string[] {
  const isReward = runs.every((run) => run.manifest === null || run.measure === 'reward')
  const head = ['Run', 'Status', 'Rows', isReward ? 'Reward' : 'Mean', 'Passed', 'Started', 'Model']
  const rows = [
    head.map((text): Cell => ({ text, format: 'bold' })),
    ...runs.map((run) =>
      run.manifest === null
        ? [run.name, statusCell(run), '', '', '', '', '']
        : [
            run.name,
            statusCell(run),
            sizeText(run.manifest),
            briefText(run.mean, 'plain'),
            briefText(run.passRate, 'share'),
            agoText(run.manifest.created_at),
            onOneLine(run.manifest.inputs.model.name),
          ],
    ),
  ]
  const table = tableLines(rows, { width })
  const problems = runs.flatMap((run) =>
    run.manifest === null ? ['', ...problemLines(run, width)] : [],
  )
  if (isWithin(table, width)) return [...table, ...problems]
  return [...runs.flatMap((run) => blockOf(run, width)), ...problems]
}

function isWithin(lines: readonly string[], width: number): boolean {
  return lines.every((line) => columnsOf(stripVTControlCharacters(line)) <= width)
}

function blockOf(run: RunSummary, width: number): string[] {
  const { text, format = 'reset' } = statusCell(run)
  const title = styled('bold', run.name)
  const status = `  ${styled(format, text)}`
  if (run.manifest === null) return [title, status]
  const { manifest, measure, mean, passRate: rate } = run
  const { name } = manifest.inputs.model
  const facts = [agoText(manifest.created_at), sizeText(manifest), onOneLine(name)]
  const figures = `${onOneLine(measure)} ${briefText(mean, 'plain')}, passed ${briefText(rate, 'share')}`
  return [
    title,
    `${status}, ${figures}`,
    ...wrapped(facts.join(', '), width - 2).map((line) => styled('dim', `  ${line}`)),
  ]
}

function sizeText({ rows, n }: RunManifest): string {
  return `${formatQuantity(rows.length, 'row')} × ${formatCount(n)}`
}

function statusCell(run: RunSummary): Cell {
  if (run.manifest === null) return { text: 'broken', format: 'red' }
  const { status, done, total } = run.state
  const count = `${formatCount(done)}/${formatCount(total)}`
  switch (status) {
    case 'finished':
      return { text: 'finished', format: 'green' }
    case 'running':
      return { text: `running ${count}`, format: 'cyan' }
    case 'incomplete':
      return { text: `incomplete ${count}`, format: 'yellow' }
  }
}

function problemLines(run: RunSummary & { readonly manifest: null }, width: number): string[] {
  return wrapped(`${run.name}: ${run.problem}`, width).map((line) => styled('red', line))
}

/** A training as the list has it. */
interface SummarizedTraining extends FoundTraining {
  readonly status: keyof typeof stateColours | 'broken'
  readonly problem?: string
  readonly steps: number
  /** Undefined when it has not started. */
  readonly planned?: number
  readonly started_at?: string
  readonly model?: string
  /** Rewards of the held-out rows, in order. */
  readonly held_out: readonly string[]
}

/** The trainings beside the runs of a folder, by name. */
async function trainingSummaries(root: string): Promise<SummarizedTraining[]> {
  return (await listTrainings(trainingsRoot(root))).map(trainingSummary)
}

function trainingSummary({ name, location }: FoundTraining): SummarizedTraining {
  let records: readonly TrainingRecord[]
  try {
    records = readTrainingJournal(location)
  } catch (error) {
    // It is a fact about that training; the others are listed all the same.
    const problem = (error as Error).message
    return { name, location, status: 'broken', problem, steps: 0, held_out: [] }
  }
  const started = records.findLast((record) => record.kind === 'start')
  return {
    name,
    location,
    status: trainingState(location, records),
    steps: records.filter(({ kind }) => kind === 'step').length,
    ...(started?.steps != null && { planned: started.steps }),
    ...(started !== undefined && { started_at: started.startedAt, model: started.model }),
    held_out: heldOutRewards(records),
  }
}

/** A table of trainings where it fits, else two lines or more for each; the model is cut in the table. */
function trainingLines(trainings: readonly SummarizedTraining[], width: number): string[] {
  const head = ['Training', 'Status', 'Steps', 'Held out', 'Started', 'Model']
  const rows = trainings.map(trainingCells)
  const bold = head.map((text): Cell => ({ text, format: 'bold' }))
  const problems = trainings.flatMap(({ name, problem }) =>
    problem === undefined ? [] : wrapped(`${name}: ${problem}`, width),
  )
  const table = tableLines([bold, ...rows], { width })
  const fits = isWithin(table, width)
  const shown = fits ? table : trainings.flatMap((training) => trainingBlock(training, width))
  return [...shown, ...problems]
}

function trainingCells(training: SummarizedTraining): [name: string, status: Cell, ...string[]] {
  const { name, status, steps, planned, held_out: rewards, started_at: startedAt } = training
  const ends = rewards.length > 1 ? [rewards[0], rewards.at(-1)] : rewards
  return [
    name,
    { text: status, format: status === 'broken' ? 'red' : stateColours[status] },
    planned === undefined ? String(steps) : `${steps}/${planned}`,
    ends.join(' → '),
    startedAt === undefined ? '' : agoText(startedAt),
    onOneLine(training.model ?? ''),
  ]
}

function trainingBlock(training: SummarizedTraining, width: number): string[] {
  const [name, { text, format = 'reset' }, steps, ...facts] = trainingCells(training)
  return [
    styled('bold', name),
    `  ${styled(format, text)}, ${steps} steps`,
    ...packed(
      facts.filter((fact) => fact !== ''),
      ', ',
      width - 2,
    ).map((line) => styled('dim', `  ${line}`)),
  ]
}
