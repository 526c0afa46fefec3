// A test of the test: it notices every change between the policy and the trainer.
import { expect, it } from 'vitest'

import type { FakeModel, TrainedCall } from '../kit/trainers/index.ts'
import { handWritten } from './agents/hand-written.ts'
import { train } from './train.ts'
import { osmosis, traced, type TrainerUnderTest } from './trainer-under-test.ts'
import { lightning } from './worked-trainers.ts'

const honest = osmosis('callbacks')
const run = { seed: 65, agent: handWritten, attempts: 3, iterations: 1 }

it.each([
  ['the trace of POST /run', traced],
  ['Agent Lightning', lightning],
])('finds nothing wrong with %s', async (_, trainer) => {
  expect(await train({ ...run, trainer })).toHaveLength(2)
})

it.each<[string, (calls: readonly TrainedCall[]) => TrainedCall[]]>([
  ['rewards of two rollouts that are exchanged', exchanged('reward')],
  ['token ids of another rollout', exchanged('ids')],
  ['logprobs of another rollout', exchanged('logprobs')],
  ['a prompt of another rollout', exchanged('promptIds')],
  ['a call that is lost', (calls) => calls.slice(1)],
  ['a call that is trained twice', (calls) => [...calls, ...calls.slice(0, 1)]],
])('notices %s', async (_, tamper) => {
  const trainer = tampering(tamper)
  const message = 'what is trained is what the policy said'
  await expect(train({ ...run, trainer })).rejects.toThrow(message)
})

it('notices rollouts that are in the group of another row', async () => {
  const trainer = tampering(exchanged('group'))
  await expect(train({ ...run, trainer })).rejects.toThrow('a group has one code')
})

it('notices failures that are trained', async () => {
  const trainer = osmosis('callbacks', 0)
  const message = 'what is trained is what the policy said'
  await expect(train({ ...run, trainer, failing: 0.4 })).rejects.toThrow(message)
})

it('notices an endpoint that answers with other logprobs than the policy', async () => {
  const trainer: TrainerUnderTest = {
    open: async (model, backend) => honest.open(withoutDoubt(model), backend),
  }
  const message = 'the calls of samples are those that the policy answered'
  await expect(train({ ...run, trainer })).rejects.toThrow(message)
})

function tampering(
  tamper: (calls: readonly TrainedCall[]) => readonly TrainedCall[],
): TrainerUnderTest {
  return {
    async open(model, backend) {
      const trainer = await honest.open(model, backend)
      return { ...trainer, trained: () => tamper(trainer.trained()) }
    },
  }
}

/** Gives the first call what the next one has that differs there, and the other way round. */
function exchanged(key: keyof TrainedCall): (calls: readonly TrainedCall[]) => TrainedCall[] {
  return (calls) => {
    const [first] = calls
    const other = calls.find((call) => JSON.stringify(call[key]) !== JSON.stringify(first?.[key]))
    if (first === undefined || other === undefined) throw new Error(`all have the same ${key}`)
    const given = new Map([
      [first, { ...first, [key]: other[key] }],
      [other, { ...other, [key]: first[key] }],
    ])
    return calls.map((call) => given.get(call) ?? call)
  }
}

function withoutDoubt(model: FakeModel): FakeModel {
  return async (body, rolloutId) => {
    const answer = await model(body, rolloutId)
    const choices = answer.choices.map((choice) => ({
      ...choice,
      logprobs: { content: (choice.logprobs?.content ?? []).map(() => ({ logprob: 0 })) },
    }))
    return { ...answer, choices }
  }
}
