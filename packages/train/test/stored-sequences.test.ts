import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'

import { openRun } from '@osmosis/eval'
import { train, type OpenRollouts, type TrainOptions } from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { knownRow, KnownLearner } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'

async function training(more: Partial<TrainOptions> = {}): Promise<TrainOptions> {
  return {
    folder: await temporaryFolder(),
    learner: new KnownLearner({}),
    rollouts: quickRollouts(({ attempt }) => ({
      reward: attempt / 2,
      // More than a file system writes at once.
      calls: [{ promptTokenIds: Array.from({ length: 20_000 }, (_, at) => at) }],
    })),
    rows: [knownRow(0), knownRow(1)],
    steps: 1,
    attempts: 3,
    maxInFlight: 6,
    ...more,
  }
}

/** Rollouts whose tokens are in the file of a run. */
function rolloutsOnDisk(run: string): Set<string> {
  const file = path.join(run, 'sequences.jsonl')
  if (!existsSync(file)) return new Set()
  // A line that is not whole yet does not count.
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1)
  return new Set(lines.map((line) => (JSON.parse(line) as { rollout_id: string }).rollout_id))
}

it('whatever counts as ended has its tokens on the disk', async () => {
  const options = await training({ maxInFlight: 1 })
  const run = path.join(options.folder, 'runs', 'step-0001')
  const stored: number[] = []
  // What is written about an attempt is redacted before.
  const redact = <T>(data: T): T => {
    stored.push(rolloutsOnDisk(run).size)
    return data
  }
  const missing: number[] = []
  const onProgress: TrainOptions['onProgress'] = (_, { done }) =>
    void missing.push(done - rolloutsOnDisk(run).size)
  await train({ ...options, redact, onProgress })
  expect(Math.max(...missing)).toBe(0)
  // The tokens of the first attempt are there before anything else of it, and so on, one attempt at a time.
  expect([...new Set(stored)]).toEqual([1, 2, 3, 4, 5, 6])
})

/** A training whose process ended when the run of its first step had begun, and the file for the tokens of that run. */
async function interruptedTraining(): Promise<{ options: TrainOptions; file: string }> {
  const options = await training()
  const stopped = new AbortController()
  const rollouts: OpenRollouts = async (policy) => ({
    ...(await options.rollouts(policy)),
    runner: {
      run: async () => {
        stopped.abort(new Error('stopped'))
        throw stopped.signal.reason
      },
    },
  })
  const first = { ...options, rollouts, signal: stopped.signal }
  await expect(train(first)).rejects.toThrow('stopped')
  const file = path.join(options.folder, 'runs', 'step-0001', 'sequences.jsonl')
  rmSync(file)
  return { options, file }
}

it.each([
  ['written', (file: string) => symlinkSync('/dev/full', file)] as const,
  ['opened', (file: string) => mkdirSync(file)] as const,
])('nothing ends whose tokens cannot be %s, and it is run again', async (_, spoil) => {
  const { options, file } = await interruptedTraining()
  spoil(file)
  await expect(train(options)).rejects.toMatchObject({
    code: 'storage_error',
    message: expect.stringContaining(file),
  })
  expect((await openRun(path.dirname(file))).events.size).toBe(0)
  rmSync(file, { recursive: true })
  const { steps } = await train(options)
  expect(steps[0]?.batch.sequences).toBe(4)
})

it('a line that a crash cut off costs no other line', async () => {
  const options = await training({ maxInFlight: 1 })
  const stopped = new AbortController()
  const onProgress: TrainOptions['onProgress'] = (_, { done }) => {
    if (done === 2) stopped.abort(new Error('stopped'))
  }
  const first = { ...options, onProgress, signal: stopped.signal }
  await expect(train(first)).rejects.toThrow('stopped')
  const run = path.join(options.folder, 'runs', 'step-0001')
  appendFileSync(path.join(run, 'sequences.jsonl'), '{"rollout_id":"cut off","samp')
  const { steps } = await train({ ...options, learner: new KnownLearner({}) })
  // Of three attempts at each of two rows, that in the middle has the mean reward.
  expect(steps[0]?.batch).toMatchObject({ groups: 2, groupsWithSignal: 2, sequences: 4 })
})
