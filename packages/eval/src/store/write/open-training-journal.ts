import { existsSync, readFileSync, truncateSync } from 'node:fs'

import { trainingJournalFile } from '../read/training-folder.ts'
import { AppendFile } from './append-file.ts'

/**
 * Opens the journal of a training to append records, for the process that holds its lock. A last line that a crash
 * cut off is removed.
 *
 * @param onFailure - called before records that could not be written are rejected
 */
export function openTrainingJournal(folder: string, onFailure: (error: Error) => void): AppendFile {
  const file = trainingJournalFile(folder)
  if (existsSync(file)) {
    const bytes = readFileSync(file)
    truncateSync(file, bytes.lastIndexOf('\n') + 1)
  }
  return new AppendFile(file, onFailure)
}
