import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { train } from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { smallDisk, withSmallDisk } from '../../../test/kit/starved/small-disk.ts'
import { knownRollouts, knownRow, KnownLearner, type KnownAttempts } from './known-rollouts.ts'

const call = { prompt: [1, 9], ids: [2], logprobs: [-1] }
const attempts: KnownAttempts = {
  0: [0, 1].map((reward) => ({ calls: { asker: [call] }, rewards: { asker: reward } })),
}

async function trainedIn(folder: string, learner = new KnownLearner(attempts)) {
  const rollouts = await knownRollouts(attempts)
  return train({ folder, learner, rollouts, rows: [knownRow(0)], steps: 1, attempts: 2 })
}

/** A learner that cannot save. */
function refusing(code: string): KnownLearner {
  const learner = new KnownLearner(attempts)
  learner.save = async (file) => {
    throw Object.assign(new Error(`${code}: no more`), { code, path: path.join(file, 'weights') })
  }
  return learner
}

it.each(['ENOSPC', 'EDQUOT', 'EFBIG'])(
  'a checkpoint that %s refuses is an error that names the file',
  async (code) => {
    const folder = await temporaryFolder()
    const file = path.join(folder, 'checkpoints', 'step-0000', 'weights')
    await expect(trainedIn(folder, refusing(code))).rejects.toMatchObject({
      code: 'storage_error',
      message: expect.stringContaining(`Cannot write to ${file}: ${code}: no more.`),
    })
    expect(await trainedIn(folder)).toMatchObject({ reason: 'All steps are done.' })
  },
)

it('another error of a learner that saves stays as it is', async () => {
  const folder = await temporaryFolder()
  await expect(trainedIn(folder, refusing('EIO'))).rejects.toThrow(/^EIO: no more$/)
})

withSmallDisk.it(
  'a training that cannot note what it is about says what is full, and starts when there is room',
  async () => {
    const disk = smallDisk()
    const folder = path.join(disk.folder, 'training')
    disk.fill()
    await expect(trainedIn(folder)).rejects.toMatchObject({
      code: 'storage_error',
      message: expect.stringMatching(/^Cannot write to .*ENOSPC.* are free in /),
    })
    expect(existsSync(path.join(folder, 'training.json'))).toBe(false)
    disk.enlarge()
    await trainedIn(folder)
    expect(JSON.parse(readFileSync(path.join(folder, 'training.json'), 'utf8'))).toBeTruthy()
  },
)
