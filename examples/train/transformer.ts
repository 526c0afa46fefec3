// The same training with a transformer of 150,000 weights, whose tokens are text: `demo:train --torch`. The loop and the
// learner are those of `osmosis train local`.
import { mkdtemp } from 'node:fs/promises'
import path from 'node:path'

import type { DatasetRow } from '@osmosis/eval'
import { openLocalLearner, servedRollouts, train, type TrainResult } from '@osmosis/train'

import { LearningCurve } from './learning-curve.ts'

const policyFile = path.resolve(
  import.meta.dirname,
  '../../packages/train/test/learner/tiny_policy.py',
)

/** What is trained where. */
export interface TransformerTraining {
  /** URL of the server that runs the agent. */
  readonly server: string
  /** Python with torch. */
  readonly python: string
  readonly rows: readonly DatasetRow[]
  readonly attempts: number
  readonly steps: number
  /** Receives the folder of the training. */
  readonly output: string
}

/** Evaluates the transformer, trains it and evaluates it again. */
export async function trainTransformer(options: TransformerTraining): Promise<TrainResult> {
  const { server, python, rows, attempts, steps, output } = options
  const learner = await openLocalLearner({
    model: 'tiny-transformer',
    python,
    policyClass: `${policyFile}:TinyPolicy`,
    loraRank: 0,
    threads: 1,
    maxLength: 256,
  })
  const curve = new LearningCurve()
  try {
    return await train({
      folder: await mkdtemp(path.join(output, 'doors-transformer-')),
      learner,
      rollouts: servedRollouts({ server: { url: server } }),
      rows,
      heldOut: rows,
      heldOutAttempts: attempts,
      steps,
      attempts,
      update: { learningRate: 1e-3, epochs: 2, minibatches: 2 },
      stopWhen: { reward: 0.9 },
      names: { rollout: 'doors', dataset: 'doors' },
      onProgress: (_run, { done }) => curve.running(learner.version, done),
      onStep: ({ step, rollouts }) =>
        curve.ended(step, rollouts.reward ?? 0, Math.min(1, rollouts.toolCalls)),
    })
  } finally {
    await learner.close()
  }
}
