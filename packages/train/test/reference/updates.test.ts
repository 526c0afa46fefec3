import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import type { LocalLearner, TrainingBatch, UpdateFigures, UpdateSettings } from '@osmosis/train'
import { expect } from 'vitest'

import { pythonWithTorch, temporaryFolder, withTorch } from '../../../../test/kit/index.ts'
import { tableLearner } from './table-learner.ts'

const { it } = withTorch()

/** An update as `reference_update.py` writes it down. */
interface WrittenUpdate {
  readonly name: string
  readonly loss: TrainingBatch['loss']
  readonly settings: UpdateSettings
  readonly sequences: TrainingBatch['sequences']
  readonly figures: Omit<UpdateFigures, 'seconds'>
  /** Of the policy after the update. */
  readonly weights: readonly (readonly number[])[]
}

const folder = import.meta.dirname
const updates = readFileSync(path.join(folder, 'updates.jsonl'), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as WrittenUpdate)

async function weightsOf(learner: LocalLearner): Promise<number[]> {
  const exported = path.join(await temporaryFolder(), 'exported')
  await learner.export(exported)
  return (
    JSON.parse(readFileSync(path.join(exported, 'weights.json'), 'utf8')) as number[][]
  ).flat()
}

it('updates come to what a program says that computes them token by token', async () => {
  // So few tokens at once that a minibatch is computed in parts of unequal size.
  const learner = await tableLearner({ microBatchTokens: 16 })
  for (const [at, { name, loss, settings, sequences, figures, weights }] of updates.entries()) {
    const before = await weightsOf(learner)
    const { seconds: _, ...own } = await learner.update({ loss, sequences }, settings)
    for (const [figure, value] of Object.entries(figures)) {
      const found = own[figure as keyof typeof own]
      if (value === null) expect(found, `${name}: ${figure}`).toBe(null)
      else expect(found, `${name}: ${figure}`).toBeCloseTo(value, 4)
    }
    const after = await weightsOf(learner)
    const most = Math.max(...weights.flat().map((weight, i) => Math.abs(weight - (after[i] ?? 0))))
    const moved = Math.max(...before.map((weight, i) => Math.abs(weight - (after[i] ?? 0))))
    expect(most, `${name}: weights`).toBeLessThan(moved * 1e-4)
    expect(learner.version).toBe(at + 1)
  }
})

it('an update that fails behind its first step changes nothing', async () => {
  const learner = await tableLearner()
  const [first] = updates as [WrittenUpdate]
  const before = await weightsOf(learner)
  // Its last steps compute with weights that are no numbers any more.
  const settings = { ...first.settings, learningRate: 3e37, epochs: 12, kl: 0 }
  await expect(
    learner.update({ loss: first.loss, sequences: first.sequences }, settings),
  ).rejects.toMatchObject({
    code: 'learner_error',
    message: expect.stringContaining('not finite') as string,
  })
  expect(await weightsOf(learner)).toEqual(before)
  expect(learner.version).toBe(0)
})

it('the weights before those of a loaded state are not known', async () => {
  const learner = await tableLearner()
  const [{ loss, settings, sequences }] = updates as [WrittenUpdate]
  const batch = {
    loss,
    sequences: sequences.map((sequence) => ({ ...sequence, policyVersion: 0, newestVersion: 0 })),
  }
  const saved = path.join(await temporaryFolder(), 'state')
  expect((await learner.update(batch, settings)).driftMean).not.toBeNull()
  await learner.save(saved)
  // From here on the learner has the weights of version 1 as those before the last update.
  expect((await learner.update(batch, settings)).driftMean).not.toBeNull()
  await learner.load(saved)
  expect((await learner.update(batch, settings)).driftMean).toBeNull()
})

it('the program writes down what stands beside it', async () => {
  const program = path.join(folder, 'reference_update.py')
  await promisify(execFile)(pythonWithTorch() ?? '', [program, '--check'])
})
