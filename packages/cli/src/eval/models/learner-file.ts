import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { writeFileAtomically } from '@osmosis/protocol/files'
import type { LearnerProcessOptions } from '@osmosis/train'

/** How the learner of a training on this machine was started, so that its checkpoints can be loaded again. */
export type LearnerFile = Pick<
  LearnerProcessOptions,
  | 'model'
  | 'python'
  | 'device'
  | 'sampler'
  | 'loraRank'
  | 'loraTargets'
  | 'precision'
  | 'maxLength'
  | 'batch'
>

const fileName = 'learner.json'

export async function writeLearnerFile(folder: string, options: LearnerFile): Promise<void> {
  const { model, python, device, sampler, loraRank, loraTargets, precision } = options
  const { maxLength, batch } = options
  const learner = { model, python, device, sampler, loraRank, loraTargets, precision }
  const stored = { ...learner, maxLength, batch }
  await writeFileAtomically(path.join(folder, fileName), `${JSON.stringify(stored, null, 2)}\n`)
}

/**
 * Undefined in a folder that is not that of a training on this machine.
 *
 * @throws OsmosisError with code `damaged_run` when the file cannot be read or is not JSON
 */
export async function readLearnerFile(folder: string): Promise<LearnerFile | undefined> {
  const file = path.join(folder, fileName)
  if (!existsSync(file)) return undefined
  try {
    return JSON.parse(await readFile(file, 'utf8')) as LearnerFile
  } catch (cause) {
    throw new OsmosisError(
      'damaged_run',
      `Cannot read ${file}, which says how the learner of the training is started: ${errorMessage(cause)}. Continue the training with osmosis train local, which writes this file again.`,
      { cause },
    )
  }
}
