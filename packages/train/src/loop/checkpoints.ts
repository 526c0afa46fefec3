import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { type CheckpointRecord, rewardsByVersion } from '@osmosis/eval/analysis'
import { namedFullDisk } from '@osmosis/protocol/files'

import { digestFolder } from '../files/folder-digest.ts'
import type { Learner } from '../learner.ts'
import { padded } from './step-run.ts'
import type { TrainingJournal } from './training-journal.ts'

/** What the error of a full disk says. */
export const fullDiskAdvice = 'Free some space, and continue with the training.'

/** How the learners of this package name a folder until it is whole. */
const unfinished = /^step-\d+\.(?:[\da-f]{8}\.partial|tmp)$/

/** Options of {@link Checkpoints}. */
export interface CheckpointsOptions {
  /** Of the training. */
  readonly folder: string
  readonly learner: Learner
  readonly journal: TrainingJournal
  /** How many of the last are retained, beside the best. */
  readonly retained: number
  readonly onWarning: (message: string) => void
}

/** The saved states of a learner, the start included. */
export class Checkpoints {
  readonly #options: CheckpointsOptions

  constructor(options: CheckpointsOptions) {
    this.#options = options
  }

  /**
   * Saves the current state, unless the last checkpoint has it.
   *
   * @throws what the learner throws; OsmosisError with code `storage_error` when the disk is full
   */
  async save(): Promise<void> {
    const { journal, learner } = this.#options
    const step = journal.steps.length
    const last = journal.checkpoints.at(-1)
    if (last?.step === step && existsSync(this.#path(last.folder))) return
    journal.lock.assertHeld()
    const folder = path.join('checkpoints', `step-${padded(step)}`)
    await mkdir(this.#path('checkpoints'), { recursive: true })
    await learner.save(this.#path(folder)).catch(async (error: unknown) => {
      throw await namedFullDisk(error, { folder: this.#path(folder), advice: fullDiskAdvice })
    })
    const { version } = learner
    const saved = { kind: 'checkpoint', step, version, folder } as const
    const isHere = existsSync(this.#path(folder))
    const { sha256 } = isHere ? await digestFolder(this.#path(folder)) : {}
    await journal.append({ ...saved, ...(sha256 !== undefined && { sha256 }) })
    await this.#removeOld()
  }

  /**
   * Loads the last state that is whole. Resolves with the number of steps that are in it.
   *
   * @throws OsmosisError with code `invalid_config` when the learner was updated and there is none; `damaged_run` when the
   * version of a state is not the one that the journal names
   */
  async restore(): Promise<number> {
    const { journal, learner, onWarning, folder: training } = this.#options
    await this.#removeUnfinished()
    for (const checkpoint of journal.checkpoints.toReversed()) {
      const { step, version, folder } = checkpoint
      const place = this.#path(folder)
      if (!existsSync(place)) continue
      if (!(await this.#isWhole(checkpoint))) {
        await rm(`${place}.damaged`, { recursive: true, force: true })
        await rename(place, `${place}.damaged`)
        onWarning(
          `The files in ${place} are not those that were saved, so they are now in ${path.basename(place)}.damaged. The training continues from the checkpoint before, and makes the updates since then again.`,
        )
        continue
      }
      await learner.load(place)
      this.assertVersion(version, `The state in ${place}`)
      return step
    }
    if (learner.version === 0) return 0
    throw new OsmosisError(
      'invalid_config',
      `Cannot train: the learner has made ${learner.version} updates, and ${training} has no checkpoint of it. Start with a new learner.`,
    )
  }

  /** @throws OsmosisError with code `damaged_run` when the learner has another version than the journal names */
  assertVersion(expected: number, what: string): void {
    const { version } = this.#options.learner
    if (version === expected) return
    throw new OsmosisError(
      'damaged_run',
      `${what} has ${version} updates, and the journal of the training has ${expected}. Remove the folder of that checkpoint to continue from the one before it.`,
    )
  }

  /** {@link Checkpoints.best} of those whose files are as they were saved; the others are warned about. */
  async wholeBest(): Promise<CheckpointRecord | undefined> {
    const { onWarning } = this.#options
    const damaged = new Set<string>()
    for (;;) {
      const best = this.best(damaged)
      if (best === undefined || (await this.#isWhole(best))) return best
      damaged.add(best.folder)
      onWarning(
        `The files in ${this.#path(best.folder)} are not those that were saved: the best of the other checkpoints is taken for the best.`,
      )
    }
  }

  async #isWhole({ folder, sha256 }: CheckpointRecord): Promise<boolean> {
    return sha256 === undefined || (await digestFolder(this.#path(folder))).sha256 === sha256
  }

  /**
   * The first of those that got the highest reward: on held-out rows where these were evaluated, else the mean over the
   * steps whose rollouts its version answered.
   *
   * @param without - folders of checkpoints that do not count
   */
  best(without: ReadonlySet<string> = new Set()): CheckpointRecord | undefined {
    const rewards = rewardsByVersion(this.#options.journal)
    let best: CheckpointRecord | undefined
    for (const checkpoint of this.#options.journal.checkpoints) {
      const reward = rewards.get(checkpoint.version)
      const isThere = !without.has(checkpoint.folder) && existsSync(this.#path(checkpoint.folder))
      if (reward === undefined || !isThere) continue
      if (best === undefined || reward > (rewards.get(best.version) ?? reward)) best = checkpoint
    }
    return best
  }

  /** A process that is killed while it saves leaves a folder that no checkpoint names, as large as a checkpoint. */
  async #removeUnfinished(): Promise<void> {
    const checkpoints = this.#path('checkpoints')
    const names = existsSync(checkpoints) ? await readdir(checkpoints) : []
    for (const name of names.filter((one) => unfinished.test(one))) {
      await rm(path.join(checkpoints, name), { recursive: true, force: true })
    }
  }

  async #removeOld(): Promise<void> {
    const { journal, retained } = this.#options
    const best = this.best()
    for (const checkpoint of journal.checkpoints.slice(0, -retained)) {
      if (checkpoint.folder === best?.folder) continue
      await rm(this.#path(checkpoint.folder), { recursive: true, force: true })
    }
  }

  #path(folder: string): string {
    return path.join(this.#options.folder, folder)
  }
}
