import { readFileSync } from 'node:fs'
import { chmod, writeFile } from 'node:fs/promises'
import path from 'node:path'

import {
  defaultUpdate,
  openLocalLearner,
  type BatchSequence,
  type LocalLearner,
  type PolicyLoss,
  type TrainingBatch,
  type UpdateSettings,
} from '@osmosis/train'
import { describe, expect, onTestFinished } from 'vitest'

import { onlyIf, temporaryFolder } from '../../../../test/kit/index.ts'

const { it } = onlyIf(process.platform !== 'win32', 'a POSIX shell')

type Body = Readonly<Record<string, unknown>> & {
  readonly sequences: readonly Readonly<Record<string, unknown>>[]
}

/** A learner whose process keeps what it is asked for, and all that it was asked for until now. */
async function standIn(): Promise<{
  readonly learner: LocalLearner
  readonly bodies: () => readonly Body[]
}> {
  const [model, programs] = [await temporaryFolder(), await temporaryFolder()]
  const python = path.join(programs, 'python')
  const program = path.join(import.meta.dirname, 'stand-in-learner.ts')
  await writeFile(python, `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`)
  await chmod(python, 0o755)
  const learner = await openLocalLearner({ model, python })
  onTestFinished(() => learner.close())
  const file = path.join(model, 'updates.jsonl')
  const bodies = (): Body[] =>
    readFileSync(file, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Body)
  return { learner, bodies }
}

/** With so many sampled tokens. */
function sequence(
  sampled: number,
  policyVersion: number,
  newestVersion = policyVersion,
): BatchSequence {
  const tokens = Array.from({ length: sampled }, (_, at) => at + 1)
  return {
    ids: [9, ...tokens],
    logprobs: [0, ...tokens.map((token) => -token)],
    advantages: [0, ...tokens.map((token) => token / 2)],
    mask: [0, ...tokens.map(() => 1 as const)],
    temperature: 0.5 + sampled,
    rolloutId: `r${sampled}`,
    sampleId: 'main',
    policyVersion,
    newestVersion,
  }
}

function batch(...sequences: readonly BatchSequence[]): TrainingBatch {
  return { loss: 'policy_gradient', sequences }
}

/** What the learner's process calls each setting, and a value that no other one has; null: it gets what follows from it. */
const names: Readonly<Record<keyof UpdateSettings, readonly [name: string | null, value: number]>> =
  {
    loss: [null, 0],
    longestAnswer: [null, 0],
    learningRate: ['learning_rate', 0.11],
    epochs: ['epochs', 2],
    minibatches: ['minibatches', 3],
    clipLow: ['clip_low', 0.12],
    clipHigh: ['clip_high', 0.13],
    kl: ['kl', 0.14],
    maxGradNorm: ['max_grad_norm', 0.15],
    weightDecay: ['weight_decay', 0.16],
    importanceCap: ['importance_cap', 0.17],
    maxDrift: ['max_drift', 0.38],
    seed: ['seed', 4],
  }

describe('an update of the learner of this machine', () => {
  it('has each setting under its name, and each sequence as it is', async () => {
    const { learner, bodies } = await standIn()
    const given = Object.entries(names).flatMap(([option, [name, value]]) =>
      name === null ? [] : [[option, value] as const],
    )
    const settings = { ...defaultUpdate, ...Object.fromEntries(given) }
    const sequences = [sequence(1, 0), { ...sequence(3, 0), temperature: null }]
    const figures = await learner.update(batch(...sequences), settings)
    expect(figures).toEqual({
      loss: 1,
      driftMean: 0.25,
      driftMax: 3,
      entropy: 4,
      clipFraction: 5,
      kl: 6,
      gradNorm: 7,
      tokens: 8,
      sequences: 9,
      seconds: 10,
    })
    expect(learner.version).toBe(1)
    const own = Object.values(names).filter(([name]) => name !== null)
    expect(bodies()).toEqual([
      {
        loss: 'policy_gradient',
        surrogate: 'ppo',
        ...Object.fromEntries(own),
        sequences: sequences.map(({ ids, mask, logprobs, advantages, temperature }) => ({
          ids,
          mask,
          logprobs,
          advantages,
          temperature,
          // Each token counts equally.
          scale: 1 / 4,
          version: 0,
        })),
      },
    ])
  })

  it('says which version sampled each sequence: that of now if none is known, none if several did', async () => {
    const { learner, bodies } = await standIn()
    const ranges = [[0], [1], [0, 1], [2, 3], [Infinity], [1, Infinity]] as const
    const mixed = batch(...ranges.map(([oldest, newest]) => sequence(1, oldest, newest)))
    for (let made = 0; made < 3; made += 1) await learner.update(mixed, defaultUpdate)
    const versions = bodies().map(({ sequences }) => sequences.map((one) => one['version']))
    // The first update is made of version 0, the last one of version 2.
    expect(versions).toEqual([0, 1, 2].map((now) => [0, 1, null, null, now, null]))
  })

  it('is refused with the code of drift when logprobs differ by more than is allowed', async () => {
    const { learner } = await standIn()
    const one = batch(sequence(2, 0))
    // The mean is 0.25 in this process.
    for (const maxDrift of [0, 0.1, 0.24]) {
      await expect(learner.update(one, { ...defaultUpdate, maxDrift })).rejects.toMatchObject({
        code: 'training_drift',
        message: 'too far',
      })
    }
    expect(learner.version).toBe(0)
    for (const maxDrift of [0.25, 0.26, 9])
      await learner.update(one, { ...defaultUpdate, maxDrift })
    expect(learner.version).toBe(3)
  })

  const losses: Readonly<
    Record<PolicyLoss, readonly [surrogate: string, scales: readonly number[]]>
  > = {
    // Six tokens in two sequences; the longest answer has 16.
    dapo: ['ppo', [1 / 6, 1 / 6]],
    cispo: ['cispo', [1 / 6, 1 / 6]],
    grpo: ['ppo', [1 / 2 / 2, 1 / 2 / 4]],
    gspo: ['gspo', [1 / 2 / 2, 1 / 2 / 4]],
    dr_grpo: ['ppo', [1 / 2 / 16, 1 / 2 / 16]],
  }
  it('weighs tokens as its loss says, and an imitation weighs them equally', async () => {
    const { learner, bodies } = await standIn()
    const sequences = [sequence(2, 0), sequence(4, 0)]
    const expected: unknown[] = []
    for (const [loss, [surrogate, scales]] of Object.entries(losses)) {
      const settings = { ...defaultUpdate, loss: loss as PolicyLoss, longestAnswer: 16 }
      await learner.update(batch(...sequences), settings)
      expected.push(['policy_gradient', surrogate, scales])
      await learner.update({ loss: 'cross_entropy', sequences }, settings)
      expected.push(['cross_entropy', surrogate, [1 / 6, 1 / 6]])
    }
    const said = bodies().map(({ loss, surrogate, sequences: own }) => [
      loss,
      surrogate,
      own.map(({ scale }) => scale),
    ])
    expect(said).toEqual(expected)
  })
})
