import { invalid } from '../../command/exit-codes.ts'
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { openLocalLearner } from '@osmosis/train'

import { displayPath } from '../../command/command-context.ts'
import type { ChosenPolicy } from '../../inputs/choose-policy.ts'
import { readLearnerFile, type LearnerFile } from './learner-file.ts'

/** Checkpoints of a training on this machine. */
export interface FoundCheckpoints {
  readonly learner: LearnerFile
  /** Absolute, in the order of their steps. */
  readonly folders: readonly string[]
}

/** The learner that answers as each checkpoint. The caller closes it. */
export interface OpenCheckpoints {
  /** Loads a checkpoint; until the next call the policy answers as it. */
  load(folder: string): Promise<ChosenPolicy>
  close(): Promise<void>
}

/**
 * Finds the checkpoints that a folder names: those of a training, or one of them.
 *
 * @throws OsmosisError with code `invalid_config` when there are none, or another program trained
 */
export async function findCheckpoints(name: string): Promise<FoundCheckpoints> {
  const folder = path.resolve(displayPath(name))
  const one = path.basename(path.dirname(folder)) === 'checkpoints'
  const training = one
    ? path.dirname(path.dirname(folder))
    : path.basename(folder) === 'checkpoints'
      ? path.dirname(folder)
      : folder
  const learner = await readLearnerFile(training)
  if (learner === undefined) {
    throw invalid(
      `${folder} has no checkpoints of osmosis train local: name the folder of a training, such as .osmosis/training/my-agent, or one of its checkpoints. For other models serve them and pass --models.`,
    )
  }
  const inside = path.join(training, 'checkpoints')
  const names = one ? [path.basename(folder)] : existsSync(inside) ? await readdir(inside) : []
  const folders = names.toSorted().map((each) => path.join(inside, each))
  if (folders.length > 0 && folders.every((each) => existsSync(each))) return { learner, folders }
  throw invalid(`There are no checkpoints in ${one ? folder : inside} yet.`)
}

/** @throws OsmosisError with code `learner_error` */
export async function openCheckpoints(learner: LearnerFile): Promise<OpenCheckpoints> {
  const opened = await openLocalLearner(learner)
  return {
    async load(folder) {
      await opened.load(folder)
      const model = `${opened.name}@${opened.version}`
      return {
        policy: opened.policy,
        name: model,
        apiKey: undefined,
        choice: { kind: 'checkpoint', model, folder },
        // Other checkpoints need it.
        [Symbol.asyncDispose]: async () => {},
      }
    },
    close: () => opened.close(),
  }
}
