import { type ListedRun, listRuns, listTrainings, readTrainingJournal } from '@osmosis/eval'
import {
  formatCount,
  formatQuantity,
  type Estimate,
  meanValue,
  passRate,
  type RunManifest,
  type TrainingRecord,
} from '@osmosis/eval/analysis'

import { printJson } from '../../command/command-context.ts'
import {
  dim,
  heading,
  indented,
  look,
  printReport,
  type Report,
  type Section,
} from '../../command/output/report.ts'
import type { Cell } from '../../command/terminal-text.ts'
import type { EvalRunsFlags } from '../runs.ts'
import { type FoundTraining, trainingsRoot } from '../training/find-training.ts'
import { heldOutRewards, stateColours, trainingState } from '../training/training-report.ts'
import { agoText, briefText } from './figure-text.ts'
import { openShownRun, runsRoot, runState, type ShownRunState } from './shown-run.ts'

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
    printJson({ runs: runs.map(toJson), trainings })
    return 0
  }
  printReport([
    ...(runs.length === 0
      ? [[`There are no runs in ${root}. osmosis eval run starts one.`]]
      : runSections(runs)),
    trainingSection(trainings),
  ])
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

/** A table where it fits, else two lines for each run; then what is wrong with those that cannot be read. */
function runSections(runs: readonly RunSummary[]): Report {
  const isReward = runs.every((run) => run.manifest === null || run.measure === 'reward')
  const head = ['Run', 'Status', 'Rows', isReward ? 'Reward' : 'Mean', 'Passed', 'Started', 'Model']
  const rows = runs.map((run) =>
    run.manifest === null
      ? [run.name, statusCell(run), '', '', '', '', '']
      : [
          run.name,
          statusCell(run),
          sizeText(run.manifest),
          briefText(run.mean, 'plain'),
          briefText(run.passRate, 'share'),
          agoText(run.manifest.created_at),
          run.manifest.inputs.model.name,
        ],
  )
  const problems = runs.flatMap((run) =>
    run.manifest === null ? [[look(`${run.name}: ${run.problem}`, 'red')]] : [],
  )
  return [[{ head, table: rows, cutsLast: true, narrow: runs.flatMap(narrowRun) }], ...problems]
}

function narrowRun(run: RunSummary): Section {
  const { name, manifest } = run
  if (manifest === null) return [heading(name), indented(statusCell(run))]
  const { measure, mean, passRate: rate } = run
  const figures = `, ${measure} ${briefText(mean, 'plain')}, passed ${briefText(rate, 'share')}`
  const started = [agoText(manifest.created_at), sizeText(manifest), manifest.inputs.model.name]
  return [heading(name), indented([statusCell(run), figures]), indented(dim(started.join(', ')))]
}

function sizeText({ rows, n }: RunManifest): string {
  return `${formatQuantity(rows.length, 'row')} × ${formatCount(n)}`
}

function statusCell(run: RunSummary): Cell {
  if (run.manifest === null) return look('broken', 'red')
  const { status, done, total } = run.state
  const count = `${formatCount(done)}/${formatCount(total)}`
  switch (status) {
    case 'finished':
      return look('finished', 'green')
    case 'running':
      return look(`running ${count}`, 'cyan')
    case 'incomplete':
      return look(`incomplete ${count}`, 'yellow')
  }
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
function trainingSection(trainings: readonly SummarizedTraining[]): Section {
  if (trainings.length === 0) return []
  const head = ['Training', 'Status', 'Steps', 'Held out', 'Started', 'Model']
  const rows = trainings.map(trainingCells)
  const problems = trainings.flatMap(({ name, problem }) =>
    problem === undefined ? [] : [`${name}: ${problem}`],
  )
  return [{ head, table: rows, cutsLast: true, narrow: rows.flatMap(narrowTraining) }, ...problems]
}

type TrainingCells = [name: string, status: Cell, steps: string, ...string[]]

function trainingCells(training: SummarizedTraining): TrainingCells {
  const { name, status, steps, planned, held_out: rewards, started_at: startedAt } = training
  const ends = rewards.length > 1 ? [rewards[0], rewards.at(-1)] : rewards
  return [
    name,
    { text: status, format: status === 'broken' ? 'red' : stateColours[status] },
    planned === undefined ? String(steps) : `${steps}/${planned}`,
    ends.join(' → '),
    startedAt === undefined ? '' : agoText(startedAt),
    training.model ?? '',
  ]
}

function narrowTraining([name, status, steps, ...more]: TrainingCells): Section {
  const known = more.filter((fact) => fact !== '').map(dim)
  return [
    heading(name),
    indented([status, `, ${steps} steps`]),
    { facts: known, separator: ', ', head: '  ' },
  ]
}
