import { listTrainings, readTrainingJournal } from '@osmosis/eval'
import type { TrainingRecord } from '@osmosis/eval/analysis'

import { tableLines, wrapped, type Cell } from '../../command/terminal-text.ts'
import { agoText } from '../show/figure-text.ts'
import { trainingsRoot, type FoundTraining } from './find-training.ts'
import { heldOutRewards, stateColours, trainingState } from './training-report.ts'

/** A training as the list has it. */
export interface SummarizedTraining extends FoundTraining {
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
export async function trainingSummaries(runsRoot: string): Promise<SummarizedTraining[]> {
  return (await listTrainings(trainingsRoot(runsRoot))).map(summaryOf)
}

function summaryOf({ name, location }: FoundTraining): SummarizedTraining {
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

/** A table of trainings; the model is cut where it does not fit. */
export function trainingLines(trainings: readonly SummarizedTraining[], width: number): string[] {
  const head = ['Training', 'Status', 'Steps', 'Held out', 'Started', 'Model']
  const rows = trainings.map((training): (Cell | string)[] => {
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
  })
  const bold = head.map((text): Cell => ({ text, format: 'bold' }))
  const problems = trainings.flatMap(({ name, problem }) =>
    problem === undefined ? [] : wrapped(`${name}: ${problem}`, width),
  )
  return [...tableLines([bold, ...rows], { width }), ...problems]
}
