import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatCompletionRequest } from '@osmosis/core/policy'
import { createRolloutServer, LocalBackend, serve } from '@osmosis/server'
import { servedRollouts, train, type Learner, type TrainingBatch } from '@osmosis/train'
import { expect, it, onTestFinished } from 'vitest'

import { temporaryFolder, tokenAnswer } from '../../../test/kit/index.ts'

/** Answers, is asked for a title, and continues with a summary of what it said. */
class Compacts extends AgentWorkflow {
  async run({ prompt }: AgentWorkflowContext): Promise<void> {
    const policy = requireRolloutContext('Compacts').registerPolicySample('main')
    await policy.complete({ messages: [...prompt], temperature: 0.1 })
    const title = { messages: [{ role: 'user', content: 'A title?' }] }
    await policy.complete(title, { purpose: 'title', trainable: false })
    await policy.complete({ messages: [{ role: 'user', content: 'So far: nothing.' }] })
  }
}

/** All attempts get the same reward, and the first answer of each its own. */
class RewardsSteps extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(1)
    ctx.setStepRewards('main', [ctx.group?.attempt ?? 0, null, 0])
  }
}

/** Keeps its batches. */
function recordingLearner(): { readonly learner: Learner; readonly batches: TrainingBatch[] } {
  const batches: TrainingBatch[] = []
  const unknown = { loss: null, entropy: null, clipFraction: null, kl: null, gradNorm: null }
  const learner: Learner = {
    name: 'recording',
    version: 0,
    policy: {
      name: 'recording',
      respond: async ({ body }) =>
        Response.json(tokenAnswer(body as unknown as ChatCompletionRequest, { content: 'yes' })),
    },
    async update(batch) {
      batches.push(batch)
      const counts = { tokens: 0, sequences: batch.sequences.length, seconds: 0 }
      return { ...unknown, driftMean: 0, driftMax: 0, ...counts }
    },
    save: async () => {},
    load: async () => {},
    export: async () => {},
    close: async () => {},
  }
  return { learner, batches }
}

/** What is trained of three attempts at one row, in a training that sets these settings of each call. */
async function trainedWith(
  sampling: Readonly<Record<string, unknown>>,
): Promise<TrainingBatch['sequences']> {
  const backend = new LocalBackend({ workflow: Compacts, grader: RewardsSteps })
  const app = createRolloutServer({ backend, trajectories: false, logger: false })
  const server = await serve(app, { port: 0, handleSignals: false })
  onTestFinished(() => server.close())
  const { learner, batches } = recordingLearner()
  const rollouts = servedRollouts({ server: { url: server.url }, sampling })
  const initialMessages = [{ role: 'user' as const, content: 'Is it?' }]
  const row = { sourceRowIndex: 0, initialMessages, label: 'yes', metadata: {}, otherColumns: {} }
  const folder = await temporaryFolder()
  await train({ folder, learner, rollouts, rows: [row], steps: 1, rowsPerStep: 1, attempts: 3 })
  return batches[0]?.sequences ?? []
}

it.each([
  ['of the training', { temperature: 0.7 }, { before: 0.7, after: 0.7 }],
  ['of the agent, which names one for its first call alone', {}, { before: 0.1, after: null }],
])('gives the learner the temperature %s', async (_, sampling, expected) => {
  const sequences = await trainedWith(sampling)
  const known = sequences.map(({ ids, temperature }) => {
    const isAfter = String.fromCodePoint(...ids).includes('So far')
    return [isAfter ? 'after' : 'before', temperature]
  })
  expect(Object.fromEntries(known)).toEqual(expected)
  expect(new Set(known.map(String)).size).toBe(2)
})

it('trains each part of a conversation by the step rewards of its calls', async () => {
  const sequences = await trainedWith({ temperature: 0.7 })
  const texts = sequences.map(({ ids }) => String.fromCodePoint(...ids))
  expect(texts.join('')).not.toContain('A title?')
  const parts = sequences.map(({ advantages, mask }, at) => ({
    part: texts[at]?.includes('So far') ? 2 : 1,
    // All tokens of an answer have the same advantage.
    advantages: [...new Set(advantages.filter((_, token) => mask[token] === 1))],
  }))
  const of = (part: number): number[] =>
    parts.filter((one) => one.part === part).flatMap(({ advantages }) => advantages)
  // The steps of the group are 1, 2, 3 and three zeros. The first answer has its own step and the one after it.
  const deviation = Math.sqrt(4 / 3) + 1e-4
  const expected = [1, 2, 3].map((step) => (step - 1 + (0 - 1)) / deviation)
  const sorted = of(1).toSorted((a, b) => a - b)
  const trained = expected.filter((advantage) => Math.abs(advantage) > 1e-9)
  expect(sorted.map(rounded)).toEqual(trained.map(rounded))
  expect(of(2).map(rounded)).toEqual([1, 2, 3].map(() => rounded(-1 / deviation)))
})

function rounded(value: number): number {
  return Math.round(value * 1e6) / 1e6
}
