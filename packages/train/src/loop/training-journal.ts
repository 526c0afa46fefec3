import { openTrainingJournal, readTrainingJournal, type AppendFile } from '@osmosis/eval'
import type {
  CheckpointRecord,
  EvaluationRecord,
  StepRecord,
  TrainingRecord,
} from '@osmosis/eval/analysis'
import type { FolderLock } from '@osmosis/protocol/files'

/**
 * The account of a training: what happened counts when its line is on the disk. A process that continues reads it and
 * starts behind the last line.
 */
export class TrainingJournal {
  readonly lock: FolderLock
  readonly #file: AppendFile
  readonly #records: TrainingRecord[]

  constructor(folder: string, lock: FolderLock) {
    this.lock = lock
    this.#records = [...readTrainingJournal(folder)]
    this.#file = openTrainingJournal(folder, lock, () => {})
  }

  get records(): readonly TrainingRecord[] {
    return this.#records
  }

  get steps(): readonly StepRecord[] {
    return this.#records.filter((record) => record.kind === 'step')
  }

  get evaluations(): readonly EvaluationRecord[] {
    return this.#records.filter((record) => record.kind === 'evaluation')
  }

  /** One for each folder: a state that was damaged or removed is saved there again. */
  get checkpoints(): readonly CheckpointRecord[] {
    const all = this.#records.filter((record) => record.kind === 'checkpoint')
    return [...new Map(all.map((checkpoint) => [checkpoint.folder, checkpoint])).values()]
  }

  /** Resolves when the record is on the disk. */
  async append(record: TrainingRecord): Promise<void> {
    await this.#file.append(JSON.stringify(record)).durable
    this.#records.push(record)
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}
