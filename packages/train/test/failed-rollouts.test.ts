import { train, type OpenRollouts } from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { knownRow, KnownLearner } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'

/** Rollouts that differ, and that all fail alike while a service that they need is down. */
function rolloutsWith(service: { isDown: boolean; asked: string[] }): OpenRollouts {
  const open = quickRollouts(({ attempt }) => attempt % 2)
  return async (policy) => {
    const source = await open(policy)
    return {
      ...source,
      runner: {
        async run(item, options) {
          service.asked.push(`${item.row.sourceRowIndex}/${item.runIndex}`)
          if (!service.isDown) return source.runner.run(item, options)
          const outcome = await source.runner.run(item, { ...options, onEnd: async () => {} })
          return {
            ...outcome,
            status: 'failed',
            reward: null,
            sampleRewards: {},
            errorType: 'agent_error',
            errorMessage: 'no search',
          }
        },
      },
    }
  }
}

it.each([
  ['a step', 'step-0001', {}],
  ['an evaluation', 'before', { heldOut: [knownRow(3), knownRow(4)], heldOutAttempts: 15 }],
] as const)(
  'a training that %s has stopped, whose rollouts all failed, runs them again when it continues',
  async (_, run, more) => {
    const service = { isDown: true, asked: [] as string[] }
    const options = {
      folder: await temporaryFolder(),
      learner: new KnownLearner({}),
      rollouts: rolloutsWith(service),
      rows: [knownRow(0), knownRow(1), knownRow(2)],
      steps: 1,
      attempts: 8,
      maxInFlight: 2,
      ...more,
    }
    const stopped = {
      code: 'rollouts_incomplete',
      message: expect.stringMatching(
        new RegExp(
          `^The rollouts of ${run} could not all be run. The first 2[01] rollouts all failed the same way, with agent_error: no search. Fix that and start again. The training continues `,
        ),
      ),
    }
    await expect(train(options)).rejects.toMatchObject(stopped)
    const first = service.asked.splice(0)
    await expect(train(options)).rejects.toMatchObject(stopped)
    expect(service.asked.splice(0).slice(0, 20)).toEqual(first.slice(0, 20))
    service.isDown = false
    const { steps } = await train(options)
    expect(steps.map(({ rollouts, batch }) => [rollouts.failed, batch.sequences])).toEqual([
      [0, 24],
    ])
  },
)

it('a training runs none of its failed rollouts again when others of the step have succeeded', async () => {
  const service = { isDown: true, asked: [] as string[] }
  const stopping = new AbortController()
  const options = {
    folder: await temporaryFolder(),
    learner: new KnownLearner({}),
    rollouts: rolloutsWith(service),
    rows: [knownRow(0), knownRow(1), knownRow(2)],
    steps: 1,
    attempts: 8,
    maxInFlight: 1,
    onProgress: (_: string, { done }: { readonly done: number }) => {
      if (done === 3) service.isDown = false
      if (done === 6) stopping.abort(new Error('stopped'))
    },
  }
  await expect(train({ ...options, signal: stopping.signal })).rejects.toThrow('stopped')
  const { steps } = await train(options)
  expect(steps.map(({ rollouts }) => rollouts.failed)).toEqual([3])
  expect(service.asked).toEqual([...new Set(service.asked)])
})
