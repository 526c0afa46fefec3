import { train } from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { knownRollouts, knownRow, KnownLearner, type KnownAttempts } from './known-rollouts.ts'

const call = { prompt: [1, 9], ids: [2], logprobs: [-1] }

/** The seeds of all answers of a training, by their places. */
async function seedsOf(seed: number): Promise<ReadonlyMap<string, unknown>> {
  const samples = { asker: [call, call], solver: [call] }
  const attempts: KnownAttempts = Object.fromEntries(
    [0, 1, 2].map((row) => [
      row,
      // The agent's own seed would make all attempts alike.
      [0, 1].map((reward) => ({
        calls: { ...samples, solver: [{ ...call, settings: { seed: 7 } }] },
        rewards: { asker: reward, solver: reward },
      })),
    ]),
  )
  const learner = new KnownLearner(attempts)
  await train({
    folder: await temporaryFolder(),
    learner,
    rollouts: await knownRollouts(attempts),
    rows: [knownRow(0), knownRow(1)],
    heldOut: [knownRow(2)],
    heldOutAttempts: 2,
    steps: 2,
    attempts: 2,
    seed,
  })
  const asked = new Map<string, number>()
  return new Map(
    learner.requests.map(({ rolloutId, sampleId, body }) => {
      const turn = asked.get(rolloutId + sampleId) ?? 0
      asked.set(rolloutId + sampleId, turn + 1)
      const place = rolloutId.replace(/-[\da-f]{8}$/, '')
      // Held-out rows are asked before the first step as well as after the last one.
      const step = [...asked.keys()].filter(
        (key) => key.startsWith(`${place}-`) && key.endsWith(sampleId),
      )
      return [`${step.length}/${place}/${sampleId}/${turn}`, body['seed']]
    }),
  )
}

it('a seed repeats the seeds of all answers, which all differ', { tags: 'slow' }, async () => {
  const first = await seedsOf(1)
  // Two steps of two rows, and two evaluations of one row: two attempts with three calls each.
  expect(first.size).toBe(36)
  expect(new Set(first.values()).size).toBe(36)
  for (const seed of first.values()) expect(seed).toSatisfy((value) => Number.isInteger(value))
  expect(await seedsOf(1)).toEqual(first)
  const other = new Set((await seedsOf(2)).values())
  expect([...first.values()].filter((seed) => other.has(seed))).toEqual([])
})

it.each([
  [{}, { max_tokens: 50 }, 50],
  [{ max_tokens: 20 }, { max_tokens: 50 }, 20],
  [{ max_tokens: 50 }, { max_tokens: 50 }, 50],
  [{ max_tokens: 80 }, { max_tokens: 50 }, 50],
  [{ max_completion_tokens: 20 }, { max_tokens: 50 }, 20],
  [{ max_completion_tokens: 80 }, { max_tokens: 50 }, 50],
  [{ max_tokens: 30, max_completion_tokens: 10 }, { max_tokens: 50 }, 10],
  [{ max_tokens: 20 }, {}, 20],
  [{ max_completion_tokens: 20 }, {}, 20],
])(
  'an agent that sets %j in a training that sets %j gets at most %i tokens',
  async (settings, sampling, most) => {
    const attempts: KnownAttempts = {
      0: [0, 1].map((reward) => ({
        calls: { asker: [{ ...call, settings }] },
        rewards: { asker: reward },
      })),
    }
    const learner = new KnownLearner(attempts)
    const rollouts = await knownRollouts(attempts, sampling)
    const folder = await temporaryFolder()
    await train({ folder, learner, rollouts, rows: [knownRow(0)], steps: 1, attempts: 2 })
    for (const { body } of learner.requests) {
      expect(body['max_completion_tokens'] ?? body['max_tokens']).toBe(most)
    }
    expect(learner.requests).toHaveLength(2)
  },
)
