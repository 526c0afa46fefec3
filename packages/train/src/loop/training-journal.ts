import { existsSync, readFileSync, truncateSync } from 'node:fs'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { AppendFile } from '@osmosis/eval'

import type { BatchCounts } from '../batch/training-batch.ts'
import type { UpdateFigures } from '../learner.ts'

/** Figures of the rollouts of a step or an evaluation. */
export interface StepFigures {
  readonly rollouts: number
  readonly failed: number
  /** Over rollouts with a reward; null without any. */
  readonly reward: number | null
  /** Of the 95 % confidence interval of the reward; null where there is none. */
  readonly rewardFrom: number | null
  readonly rewardTo: number | null
  /** Fraction of rollouts that reach the pass threshold. */
  readonly passRate: number
  /** Sampled tokens per rollout, mean. */
  readonly answerTokens: number
  /** Tool calls per rollout, mean. */
  readonly toolCalls: number
  /** Fraction of model calls that reached the limit of tokens. */
  readonly cutOff: number
  readonly seconds: number
}

/** One update of the policy, with the rollouts that it learned from. */
export interface StepRecord {
  readonly kind: 'step'
  /** From 1. */
  readonly step: number
  readonly phase: 'warm_start' | 'policy_gradient'
  /** Name of the run with the rollouts. */
  readonly run: string
  /** Version of the policy after the step: as before when there was nothing to learn. */
  readonly version: number
  /** Version of the policy that the rollouts asked. */
  readonly sampledBy: number
  readonly rollouts: StepFigures
  readonly batch: BatchCounts
  /** Null when no sequence had a signal, so that there was no update. */
  readonly update: UpdateFigures | null
  /** Positions of its rows in the dataset. */
  readonly rows: readonly number[]
  /** Those whose attempts all had the same reward. */
  readonly settledRows: readonly number[]
  readonly alarms: readonly string[]
  /** ISO 8601, UTC. */
  readonly endedAt: string
}

/** An evaluation of held-out rows. */
export interface EvaluationRecord {
  readonly kind: 'evaluation'
  readonly run: string
  /** Number of steps before it. */
  readonly step: number
  readonly version: number
  readonly rollouts: StepFigures
  readonly endedAt: string
}

/** A saved state of the learner. */
export interface CheckpointRecord {
  readonly kind: 'checkpoint'
  /** Number of steps that are in it. */
  readonly step: number
  readonly version: number
  /** Relative to the folder of the training. */
  readonly folder: string
}

export type TrainingRecord = StepRecord | EvaluationRecord | CheckpointRecord

/**
 * The account of a training: what happened counts when its line is on the disk. A process that continues reads it and
 * starts behind the last line.
 */
export class TrainingJournal {
  readonly #file: AppendFile
  readonly #records: TrainingRecord[]

  constructor(folder: string) {
    this.#records = [...readTrainingJournal(folder)]
    const file = journalOf(folder)
    removeCutOffLine(file)
    this.#file = new AppendFile(file, () => {})
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

  get checkpoints(): readonly CheckpointRecord[] {
    return this.#records.filter((record) => record.kind === 'checkpoint')
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

/**
 * The records of the training in a folder; none where it has not started. A last line that a crash cut off did not
 * count yet and is left out.
 *
 * @throws OsmosisError with code `damaged_run` when another line cannot be read
 */
export function readTrainingJournal(folder: string): readonly TrainingRecord[] {
  const file = journalOf(folder)
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.flatMap((line, at) => {
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
}

function removeCutOffLine(file: string): void {
  if (!existsSync(file)) return
  const bytes = readFileSync(file)
  truncateSync(file, bytes.lastIndexOf('\n') + 1)
}

function journalOf(folder: string): string {
  return path.join(folder, 'training.jsonl')
}
