import { invalid } from '../../command/exit-codes.ts'
import path from 'node:path'

import { openRun, readTrainingJournal, trainingRuns } from '@osmosis/eval'
import { rowHistories, stepRows, toRunDocument, type RowHistory } from '@osmosis/eval/analysis'

import { printOut } from '../../command/command-context.ts'
import { outputWidth } from '../../command/terminal-text.ts'
import type { FoundTraining } from './find-training.ts'
import { rowReport, trainingReport } from './training-report.ts'

/** What to show of a training. */
export interface ShowTrainingOptions {
  /** Its name in commands, as the user gave it. */
  readonly command: string
  /** A row, by its position in the dataset; undefined for the whole training. */
  readonly row: string | undefined
  readonly json: boolean
  readonly details: boolean
}

/**
 * Prints a training: its figures over the steps, or one row over the steps.
 *
 * @throws OsmosisError with code `invalid_config` for a row that no step has drawn, `damaged_run`
 */
export async function showTraining(
  training: FoundTraining,
  { command, row, json, details }: ShowTrainingOptions,
): Promise<void> {
  const records = readTrainingJournal(training.location)
  if (row !== undefined) {
    const history = await historyOf(training, row)
    printOut(`${json ? JSON.stringify(history, null, 2) : rowReport(training.name, history)}\n`)
  } else if (json) {
    printOut(`${JSON.stringify({ name: training.name, records }, null, 2)}\n`)
  } else {
    printOut(`${trainingReport(training, records, { width: outputWidth(), details, command })}\n`)
  }
}

async function historyOf({ name, location }: FoundTraining, row: string): Promise<RowHistory> {
  if (!/^\d+$/.test(row)) {
    throw invalid(
      `Of a training a row can be shown, by its position in the dataset, such as 12; got ${row}. An attempt is in a step: osmosis eval show ${name}/step-0001 ${row}`,
    )
  }
  const steps = readTrainingJournal(location).filter((record) => record.kind === 'step')
  const own = steps.filter((step) => step.rows.includes(Number(row)))
  const read = []
  for (const { step, run } of own) {
    const { manifest, sortedEvents } = await openRun(path.join(trainingRuns(location), run))
    read.push(stepRows(step, run, toRunDocument(manifest, sortedEvents)))
  }
  const found = rowHistories(read).find((history) => history.row === Number(row))
  if (found !== undefined) return found
  throw invalid(
    `No step of ${name} has drawn row ${row}: there are ${steps.length} steps, and rows count from 0.`,
  )
}
