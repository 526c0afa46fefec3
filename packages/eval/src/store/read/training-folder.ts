import { existsSync, readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import type { LockOwner } from '@osmosis/protocol/files'

import type { TrainingRecord } from '../../analysis/training/training-records.ts'
import { writerOf } from '../run-lock.ts'

/** The journal of the training in a folder. */
export function trainingJournalFile(folder: string): string {
  return path.join(folder, 'training.jsonl')
}

/** The folder with the runs of a training, one for each step and evaluation. */
export function trainingRuns(folder: string): string {
  return path.join(folder, 'runs')
}

/** What {@link lockRun} locks while a process trains in a folder. */
export function trainingLock(folder: string): string {
  return path.join(folder, 'training')
}

/** The process that trains in a folder; null when none does. */
export function trainingWriter(folder: string): LockOwner | null {
  return writerOf(trainingLock(folder))
}

/**
 * The records of the training in a folder; none where it has not started. A last line that a crash cut off did not
 * count yet and is left out.
 *
 * @throws OsmosisError with code `damaged_run` when another line cannot be read
 */
export function readTrainingJournal(folder: string): readonly TrainingRecord[] {
  const file = trainingJournalFile(folder)
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n')
  const records = lines.flatMap((line, at) => {
    // Behind the last newline: nothing, or a line that a crash cut off.
    if (at === lines.length - 1) return []
    try {
      return [JSON.parse(line) as TrainingRecord]
    } catch (cause) {
      throw new OsmosisError(
        'damaged_run',
        `Cannot read line ${at + 1} of ${file}. What the training did then is unknown: restore the file, or start a new training.`,
        { cause },
      )
    }
  })
  return lastOfEachStep(records)
}

/** A record of a step that was written again, because more of its rollouts ended, replaces the one before. */
function lastOfEachStep(records: readonly TrainingRecord[]): TrainingRecord[] {
  const last = new Map(
    records.map((record) => [record.kind === 'step' ? record.run : record, record]),
  )
  return [...last.values()]
}

/** A training in a folder of trainings. */
export interface ListedTraining {
  /** The name of the folder. */
  readonly name: string
  /** The folder; absolute. */
  readonly location: string
}

/** The trainings in a folder, by name; empty when the folder is missing. */
export async function listTrainings(root: string): Promise<ListedTraining[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  })
  return entries
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => ({ name, location: path.resolve(root, name) }))
    .filter(({ location }) => isTraining(location))
    .toSorted((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)))
}

/** Whether a training was started in a folder. */
export function isTraining(folder: string): boolean {
  return existsSync(trainingJournalFile(folder)) || existsSync(path.join(folder, 'training.json'))
}
