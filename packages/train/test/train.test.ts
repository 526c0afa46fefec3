import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'

import type { PolicyModel } from '@osmosis/controller'
import { openRun, readTrainingJournal } from '@osmosis/eval'
import { train, type StepRecord, type TrainOptions } from '@osmosis/train'
import { afterAll, beforeAll, expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { doorRollouts, doors } from './doors.ts'
import { KnownLearner } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'
import { TinyLearner } from './tiny-learner.ts'

let served: Awaited<ReturnType<typeof doorRollouts>>

beforeAll(async () => {
  served = await doorRollouts()
})
afterAll(() => served.close())

/** @param attempts - at each of the rows of a step */
function options(learner: TinyLearner, folder: string, steps: number, attempts = 4): TrainOptions {
  return {
    folder,
    learner,
    rollouts: served.rollouts,
    rows: doors.slice(0, 4),
    steps,
    rowsPerStep: 4,
    attempts,
    seed: 1,
  }
}

/** The same without a server. Each of the two attempts at a row has another reward. */
function quickOptions(folder: string, steps: number, learner = new KnownLearner({})): TrainOptions {
  return {
    folder,
    learner,
    rollouts: quickRollouts(({ attempt }) => attempt),
    rows: doors.slice(0, 2),
    steps,
    attempts: 2,
    seed: 1,
  }
}

it('makes a policy better, in steps that are runs', async () => {
  const folder = await temporaryFolder()
  const learner = new TinyLearner(9)
  const seen: StepRecord[] = []
  const result = await train({
    ...options(learner, folder, 60, 8),
    heldOut: doors.slice(8, 12),
    heldOutAttempts: 2,
    stopWhen: { reward: 0.6 },
    onStep: (step) => void seen.push(step),
  })

  expect(result.reason).toBe('The mean reward reached 0.6.')
  expect(result.steps).toEqual(seen)
  // A step without a signal makes no update.
  expect(learner.version).toBe(seen.filter(({ update }) => update !== null).length)
  expect(seen[0]?.rollouts.reward).toBeLessThan(0.5)
  const records = readTrainingJournal(folder)
  expect(records[0]).toMatchObject({
    kind: 'start',
    steps: 60,
    model: 'tiny',
    rows: 4,
    attempts: 8,
  })
  expect(records.at(-1)).toMatchObject({ kind: 'end', step: seen.length, reason: result.reason })
  const runs = result.evaluations.map(({ run }) => run)
  expect(runs).toEqual(['before', `after-step-${String(seen.length).padStart(4, '0')}`])
  expect(result.evaluations.map(({ step }) => step)).toEqual([0, seen.length])

  const run = await openRun(path.join(result.runs, 'step-0002'))
  expect(run.events.size).toBe(32)
  expect(run.manifest.inputs.model.name).toBe(`tiny@${seen[0]?.version}`)
  expect(readdirSync(path.join(folder, 'checkpoints')).length).toBeLessThanOrEqual(4)
})

it('trains every sampled token of groups with a signal once, with its group advantage', async () => {
  const learner = new TinyLearner(65)
  const result = await train(options(learner, await temporaryFolder(), 1))
  const [batch] = learner.batches
  const [step] = result.steps
  const ids = new Set(batch?.sequences.map(({ rolloutId }) => rolloutId))
  expect(ids.size).toBe(batch?.sequences.length)
  expect(step?.update?.tokens).toBe(step?.batch.tokens)
  const run = await openRun(path.join(result.runs, 'step-0001'))
  for (const { rolloutId, advantages, mask } of batch?.sequences ?? []) {
    const own = [...run.events.values()].find(({ rollout_id: id }) => id === rolloutId)
    const group = [...run.events.values()].filter(({ row_index: row }) => row === own?.row_index)
    const mean = group.reduce((sum, { reward }) => sum + (reward ?? 0), 0) / group.length
    const sign = Math.sign((own?.reward ?? 0) - mean)
    const expected = mask.map((isTrained) => (isTrained === 1 ? sign : 0))
    expect(advantages.map((advantage) => Math.sign(advantage))).toEqual(expected)
  }
})

it('continues where it was interrupted, with the same result', async () => {
  const whole = new TinyLearner(65)
  const folders = [await temporaryFolder(), await temporaryFolder()] as const
  await train(options(whole, folders[0], 4))

  const interrupted = new AbortController()
  const first = new TinyLearner(65)
  const own = first.policy
  let calls = 0
  const policy: PolicyModel = {
    name: own.name,
    // In the middle of the third step: the rollout of this call cannot have ended.
    respond: async (request) => {
      if (first.version === 2) calls += 1
      if (calls === 10) interrupted.abort(new Error('enough'))
      return own.respond(request)
    },
  }
  const started = train({
    ...options(Object.assign(first, { policy }), folders[1], 4),
    signal: interrupted.signal,
    checkpointEvery: 3,
  })
  await expect(started).rejects.toThrow('enough')
  const before = readTrainingJournal(folders[1])
  expect(before.filter(({ kind }) => kind === 'step')).toHaveLength(2)

  // What was learned until then was saved. After a kill it is not.
  const saved = path.join(folders[1], 'checkpoints', 'step-0002')
  expect(existsSync(saved)).toBe(true)
  rmSync(saved, { recursive: true })

  // A new process: the updates that no checkpoint has are made again from the stored rollouts.
  const second = new TinyLearner(65)
  const result = await train({ ...options(second, folders[1], 4), checkpointEvery: 3 })
  expect(result.steps.map(({ step }) => step)).toEqual([1, 2, 3, 4])
  expect(second.version).toBe(whole.version)
  expect(second.batches.slice(0, 2)).toEqual(first.batches)
  expect(second.weights).toEqual(whole.weights)
})

it('refuses to continue with other settings, and names them', async () => {
  const folder = await temporaryFolder()
  await train(quickOptions(folder, 1))
  const other = { ...quickOptions(folder, 2), seed: 8 }
  await expect(train(other)).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringMatching(/^- --seed: was \d+, is 8$/m),
  })
  const changed = doors.slice(0, 2).map((row) => ({ ...row, label: 'zz' }))
  const otherRows = { ...quickOptions(folder, 2), rows: changed }
  await expect(train(otherRows)).rejects.toThrow(
    '- rows (dataset, --dataset, --where, --sample): changed',
  )
  // More steps are no other training.
  const more = await train(quickOptions(folder, 2))
  expect(more.steps).toHaveLength(2)
})

it.each([0, -1, 1.5])(
  'refuses to retain %d checkpoints, because it continues from the last',
  async (n) => {
    const refused = { ...quickOptions(await temporaryFolder(), 1), keepCheckpoints: n }
    await expect(train(refused)).rejects.toMatchObject({
      code: 'invalid_config',
      message: `Cannot train: keepCheckpoints: must be a positive integer, got ${n}.`,
    })
  },
)

it('removes checkpoints but the last and the best', async () => {
  const folder = await temporaryFolder()
  // The second step is the best, and it was made by what the first one had trained.
  const rollouts = quickRollouts(({ attempt, before }) => attempt + (before === 1 ? 1 : 0))
  const result = await train({ ...quickOptions(folder, 6), rollouts, keepCheckpoints: 2 })
  const left = readdirSync(path.join(folder, 'checkpoints')).toSorted()
  expect(left).toEqual(['step-0001', 'step-0005', 'step-0006'])
  expect(result.best?.folder).toBe('checkpoints/step-0001')
})

it('says what is lost when there is no checkpoint of a learner that was updated', async () => {
  const learner = new KnownLearner({})
  const folder = await temporaryFolder()
  await train(quickOptions(folder, 1, learner))
  rmSync(folder, { recursive: true })
  await expect(train(quickOptions(folder, 1, learner))).rejects.toThrow(
    'the learner has made 1 updates',
  )
})

it('leaves out a line that a crash cut off, and refuses a journal that is damaged elsewhere', async () => {
  const folder = await temporaryFolder()
  await train(quickOptions(folder, 2))
  const file = path.join(folder, 'training.jsonl')
  appendFileSync(file, '{"kind":"step","st')
  const continued = await train(quickOptions(folder, 3))
  expect(continued.steps.map(({ step }) => step)).toEqual([1, 2, 3])
  const kinds = readTrainingJournal(folder).map(({ kind }) => kind)
  const step = ['step', 'checkpoint']
  const first = ['start', 'checkpoint', ...step, ...step, 'end']
  expect(kinds).toEqual([...first, 'start', ...step, 'end'])

  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replace('{"kind":"step","step":2', '{"kind":"st'))
  await expect(train(quickOptions(folder, 4))).rejects.toMatchObject({
    code: 'damaged_run',
    message: expect.stringContaining(`line 5 of ${file}`),
  })
})
