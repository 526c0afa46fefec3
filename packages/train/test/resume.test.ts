import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'

import { readTrainingJournal } from '@osmosis/eval'
import {
  train,
  type CheckpointRecord,
  type OpenRollouts,
  type TrainingBatch,
  type TrainOptions,
  type UpdateFigures,
  type UpdateSettings,
} from '@osmosis/train'
import * as fc from 'fast-check'
import { expect, it, vi } from 'vitest'

import { onlyIf, temporaryFolder, runs } from '../../../test/kit/index.ts'
import { knownRollouts, knownRow, KnownLearner, type KnownAttempts } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'

/** Two attempts that differ, at each of two rows. */
const attempts: KnownAttempts = Object.fromEntries(
  [0, 1, 2].map((row) => [
    row,
    [0, 1].map((reward) => ({
      calls: { asker: [{ prompt: [row, 9], ids: [reward], logprobs: [-1] }] },
      rewards: { asker: reward },
    })),
  ]),
)

/** Whose weights are the settings of all updates that it has made. */
class CountingLearner extends KnownLearner {
  /** The update with this number, from 1, does this. */
  readonly faults = new Map<number, 'fails before' | 'loses its answer'>()
  #made = 0

  constructor() {
    super(attempts)
  }

  override async update(batch: TrainingBatch, settings: UpdateSettings): Promise<UpdateFigures> {
    this.#made += 1
    const fault = this.faults.get(this.#made)
    if (fault === 'fails before') throw new Error(fault)
    const figures = await super.update(batch, settings)
    if (fault !== undefined) throw new Error(fault)
    return figures
  }
}

/** Without a server, and so without versions of tokens. The two attempts at each row differ here, too. */
async function training(
  more: Partial<TrainOptions> & { readonly learner: KnownLearner },
): Promise<TrainOptions> {
  return {
    folder: await temporaryFolder(),
    rollouts: quickRollouts(({ attempt }) => attempt),
    rows: [knownRow(0), knownRow(1)],
    steps: 4,
    attempts: 2,
    ...more,
  }
}

function checkpointsIn(folder: string): string[] {
  return readdirSync(path.join(folder, 'checkpoints')).toSorted()
}

it.each(['fails before', 'loses its answer'] as const)(
  'an update that %s is not in what is saved, and is made once',
  async (fault) => {
    const first = new CountingLearner()
    first.faults.set(3, fault)
    const rollouts = await knownRollouts(attempts)
    const options = await training({ learner: first, rollouts, checkpointEvery: 2 })
    await expect(train(options)).rejects.toThrow(fault)
    expect(checkpointsIn(options.folder)).toEqual(['step-0000', 'step-0002'])

    const second = new CountingLearner()
    const result = await train({ ...options, learner: second })
    expect(result.steps.map(({ version }) => version)).toEqual([1, 2, 3, 4])
    expect(result.steps.map(({ batch }) => batch.stale)).toEqual([0, 0, 0, 0])
    expect(second.updates).toHaveLength(2)
  },
)

it('a state is refused whose version is not that of the journal', async () => {
  const options = await training({ learner: new CountingLearner(), steps: 2 })
  await train(options)
  const folder = path.join(options.folder, 'checkpoints', 'step-0002')
  writeFileSync(path.join(folder, 'version'), '3')
  // A training of an earlier version has no checksums.
  withoutChecksums(options.folder)
  const again = { ...options, learner: new CountingLearner(), steps: 3 }
  await expect(train(again)).rejects.toMatchObject({
    code: 'damaged_run',
    message: expect.stringContaining(`The state in ${folder} has 3 updates, and the journal of`),
  })
})

it('lost updates are made again with the settings that they were made with', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record(
        {
          learningRate: fc.double({ min: 1e-6, max: 1, noNaN: true }),
          epochs: fc.integer({ min: 1, max: 5 }),
          minibatches: fc.integer({ min: 1, max: 5 }),
          clipLow: fc.double({ min: 0, max: 1, noNaN: true }),
          clipHigh: fc.double({ min: 0, max: 1, noNaN: true }),
          kl: fc.double({ min: 0, max: 1, noNaN: true }),
          loss: fc.constantFrom('grpo', 'dr_grpo', 'dapo', 'cispo', 'gspo'),
        },
        { requiredKeys: [] },
      ),
      fc.boolean(),
      fc.constantFrom('constant', 'linear', 'cosine'),
      async (update, normalizeAdvantages, shape) => {
        const first = new CountingLearner()
        const own = {
          update,
          normalizeAdvantages,
          learningRateSchedule: shape,
          warmupSteps: 2,
        } as const
        const options = await training({ learner: first, steps: 3, ...own, checkpointEvery: 9 })
        first.faults.set(3, 'loses its answer')
        await expect(train(options)).rejects.toThrow('loses')
        const second = new CountingLearner()
        const other = {
          update: { learningRate: 7, epochs: 9, clipLow: 0.9 },
          normalizeAdvantages: !normalizeAdvantages,
          learningRateSchedule: 'constant' as const,
          warmupSteps: 0,
          maskCutAnswers: true,
        }
        await train({ ...options, ...other, learner: second })
        expect(second.updates.slice(0, 2)).toEqual(first.updates.slice(0, 2))
        // What comes after has the settings of now.
        expect(second.updates[2]?.settings).toMatchObject(other.update)
      },
    ),
    { numRuns: runs(12) },
  )
})

it('the learning rate rises and falls as its schedule says', async () => {
  const ratesOf = async (schedule: Partial<TrainOptions>): Promise<number[]> => {
    const learner = new CountingLearner()
    const options = await training({ learner, steps: 6, update: { learningRate: 0.6 } })
    await train({ ...options, ...schedule })
    return learner.updates.map(({ settings }) => Math.round(settings.learningRate * 1e6) / 1e6)
  }
  expect(await ratesOf({})).toEqual([0.6, 0.6, 0.6, 0.6, 0.6, 0.6])
  expect(await ratesOf({ warmupSteps: 3 })).toEqual([0.2, 0.4, 0.6, 0.6, 0.6, 0.6])
  expect(await ratesOf({ learningRateSchedule: 'linear' })).toEqual([0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
  const cosine = [0, 1, 2, 3].map((at) => 0.3 * (1 + Math.cos((Math.PI * at) / 4)))
  const expected = [0.3, 0.6, ...cosine].map((rate) => Math.round(rate * 1e6) / 1e6)
  expect(await ratesOf({ learningRateSchedule: 'cosine', warmupSteps: 2 })).toEqual(expected)
})

it('continues from an older checkpoint with a warning when the last one is damaged', async () => {
  const options = await training({ learner: new CountingLearner(), steps: 3 })
  await train(options)
  const folder = path.join(options.folder, 'checkpoints', 'step-0003')
  appendFileSync(path.join(folder, 'version'), '0')
  const warnings: string[] = []
  const learner = new CountingLearner()
  const onWarning = (message: string): void => void warnings.push(message)
  const result = await train({ ...options, learner, steps: 4, onWarning })
  expect(warnings).toEqual([expect.stringContaining(`The files in ${folder} are not those`)])
  expect(result.steps.map(({ version }) => version)).toEqual([1, 2, 3, 4])
  expect(learner.updates).toHaveLength(2)
  expect(existsSync(`${folder}.damaged`)).toBe(true)

  // Without any that is left, all updates are made again.
  for (const name of checkpointsIn(options.folder)) {
    renameSync(path.join(options.folder, 'checkpoints', name), path.join(options.folder, name))
  }
  const again = new CountingLearner()
  await train({ ...options, learner: again, steps: 5 })
  expect(again.updates).toHaveLength(5)
})

/** Whose saved states differ each time, as those of a service do. */
class NamingLearner extends CountingLearner {
  #saves = 0

  override async save(folder: string): Promise<void> {
    await super.save(folder)
    writeFileSync(path.join(folder, 'name'), `${process.pid}-${(this.#saves += 1)}-${this.version}`)
  }
}

it.each(['damaged', 'removed'])(
  'a state that is saved again because it was %s can be the best',
  async (what) => {
    const first = new NamingLearner()
    const options = await training({ learner: first, steps: 3, keepCheckpoints: 1 })
    const rollouts = (learner: KnownLearner): OpenRollouts =>
      quickRollouts(({ row, attempt }) => (row === 2 ? learner.version : attempt))
    const evaluated = { ...options, heldOut: [knownRow(2)], heldOutAttempts: 1 }
    await train({ ...evaluated, rollouts: rollouts(first) })
    const folder = path.join(options.folder, 'checkpoints', 'step-0003')
    if (what === 'damaged') appendFileSync(path.join(folder, 'version'), '0')
    else rmSync(folder, { recursive: true })

    const warnings: string[] = []
    const learner = new NamingLearner()
    const onWarning = (message: string): void => void warnings.push(message)
    const again = { ...evaluated, learner, rollouts: rollouts(learner), onWarning }
    const { best } = await train(again)
    expect(warnings).toHaveLength(what === 'damaged' ? 1 : 0)
    expect(best).toMatchObject({ step: 3, version: 3 })
  },
)

it('a state that is saved again is not removed with those that are old', async () => {
  // All versions get the same rewards, so that the start is the best.
  const options = await training({ learner: new NamingLearner(), steps: 3, keepCheckpoints: 1 })
  await train(options)
  const folder = path.join(options.folder, 'checkpoints', 'step-0003')
  rmSync(folder, { recursive: true })
  await train({ ...options, learner: new NamingLearner() })
  expect(checkpointsIn(options.folder)).toEqual(['step-0000', 'step-0003'])
})

it('what a kill left of a state that was being saved is removed', async () => {
  const options = await training({ learner: new CountingLearner(), steps: 1 })
  await train(options)
  const checkpoints = path.join(options.folder, 'checkpoints')
  const left = ['step-0001.0a1b2c3d.partial', 'step-0002.tmp', 'step-0001.mine.partial']
  for (const name of left) {
    mkdirSync(path.join(checkpoints, name))
    writeFileSync(path.join(checkpoints, name, 'state.pt'), '')
  }
  await train({ ...options, learner: new CountingLearner() })
  // What somebody else named stays.
  expect(checkpointsIn(options.folder)).toEqual([
    'step-0000',
    'step-0001',
    'step-0001.mine.partial',
  ])
})

const posix = onlyIf(process.platform !== 'win32', 'a POSIX shell')

/** What a training prints as an error whose files cannot grow beyond so many blocks of 512 bytes, as on a full disk. */
async function errorWithin(blocks: number): Promise<string> {
  const file = path.join(import.meta.dirname, 'killed-training.ts')
  const program = `import(${JSON.stringify(file)}).catch((error) => {
    console.error(error.code, error.message)
    process.exit(1)
  })`
  const limited = spawn(
    '/bin/sh',
    [
      '-c',
      `ulimit -f ${blocks} && exec "$0" -e "$@"`,
      process.execPath,
      program,
      '-',
      await temporaryFolder(),
      '2',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  let stderr = ''
  limited.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  await once(limited, 'close')
  return stderr
}

posix.it('a disk that is full while rollouts run is named', { tags: 'slow' }, async () => {
  const named = /^storage_error Cannot write to .*step-0001.*: EFBIG.* are free in /
  expect(await errorWithin(40)).toMatch(named)
})

// What learners throw then is in `full-disk.test.ts`.
posix.it('a disk that is full while a state is saved is named', { tags: 'slow' }, async () => {
  const named = /^storage_error Cannot write to .*step-0000: EFBIG/
  expect(await errorWithin(16)).toMatch(named)
})

/** A learner, and rollouts with these rewards of the trained row and the held-out one, for each version. */
function learnerWithRewards(rewards: readonly (readonly [trained: number, heldOut: number])[]): {
  readonly learner: KnownLearner
  readonly rollouts: OpenRollouts
} {
  const learner = new CountingLearner()
  const rollouts = quickRollouts(({ row, attempt }) => {
    const reward = rewards[learner.version]?.[row === 2 ? 1 : 0] ?? 0
    return reward + (attempt === 0 ? 0.1 : -0.1)
  })
  return { learner, rollouts }
}

/** The best checkpoint; undefined as well when its folder does not exist. */
async function bestOf(
  rewards: readonly (readonly [trained: number, heldOut: number])[],
  more: Partial<TrainOptions>,
): Promise<CheckpointRecord | undefined> {
  const { learner, rollouts } = learnerWithRewards(rewards)
  const folder = await temporaryFolder()
  const steps = rewards.length - 1
  const { best } = await train({
    folder,
    learner,
    rollouts,
    rows: [knownRow(0)],
    steps,
    attempts: 2,
    keepCheckpoints: 1,
    ...more,
  })
  return best !== undefined && existsSync(path.join(folder, best.folder)) ? best : undefined
}

it('the best checkpoint has the highest reward of held-out rows', async () => {
  const heldOut = [knownRow(2)]
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 3, maxLength: 5 }),
      async (values) => {
        // What was trained says the opposite.
        const rewards = values.map((value) => [5 - value, value] as const)
        const best = await bestOf(rewards, { heldOut, evaluateEvery: 1, checkpointEvery: 3 })
        expect(best?.version).toBe(values.indexOf(Math.max(...values)))
      },
    ),
    // The best of the example is at no step at which a checkpoint is due.
    { numRuns: runs(6), examples: [[[0, 5, 1, 2]]] },
  )
})

it('the best checkpoint is one whose files are as they were saved', async () => {
  const rewards = [1, 5, 3, 2].map((value) => [value, value] as const)
  const { learner, rollouts } = learnerWithRewards(rewards)
  const folder = await temporaryFolder()
  const warnings: string[] = []
  const { best } = await train({
    folder,
    learner,
    rollouts,
    rows: [knownRow(0)],
    steps: 3,
    attempts: 2,
    keepCheckpoints: 9,
    onWarning: (message) => void warnings.push(message),
    onStep: ({ step }) => {
      if (step === 3) appendFileSync(path.join(folder, 'checkpoints/step-0001/version'), '0')
    },
  })
  expect(best?.version).toBe(2)
  expect(warnings).toEqual([expect.stringMatching(/step-0001 are not those that were saved/)])
})

it('without held-out rows it has the highest mean reward of the steps that it answered', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 3, maxLength: 5 }),
      async (values) => {
        const best = await bestOf(
          values.map((value) => [value, 0] as const),
          {},
        )
        // No step has measured the last version.
        expect(best?.version).toBe(values.indexOf(Math.max(...values.slice(0, -1))))
      },
    ),
    { numRuns: runs(6) },
  )
})

it('is the start when nothing was better', async () => {
  const falling = [3, 2, 1, 1].map((value) => [value, value] as const)
  expect(await bestOf(falling, {})).toMatchObject({ step: 0, folder: 'checkpoints/step-0000' })
  expect(await bestOf(falling, { heldOut: [knownRow(2)] })).toMatchObject({ step: 0, version: 0 })
})

/** Its updates wait until two rollouts of the next step have ended beside them, but for the last one and that before an evaluation. */
async function overlapped(
  more: Omit<Partial<TrainOptions>, 'learner'> = {},
): Promise<{ learner: CountingLearner; options: TrainOptions }> {
  const ended: Record<string, number> = {}
  class OverlappedLearner extends CountingLearner {
    override async update(batch: TrainingBatch, settings: UpdateSettings): Promise<UpdateFigures> {
      const [own, next] = [this.version + 1, this.version + 2]
      const isAlone = own === 4 || own % (more.evaluateEvery ?? 9) === 0
      if (!isAlone) await vi.waitUntil(() => (ended[`step-000${next}`] ?? 0) >= 2, 60_000)
      return super.update(batch, settings)
    }
  }
  const learner = new OverlappedLearner()
  const own: typeof more = { onProgress: (run, { done }) => void (ended[run] = done) }
  const rollouts = await knownRollouts(attempts)
  return {
    learner,
    options: await training({ learner, rollouts, maxStaleness: 1, ...own, ...more }),
  }
}

it('the rollouts of the next step run beside an update, and none beside an evaluation', async () => {
  const heldOut = [knownRow(2)]
  const { learner, options } = await overlapped({ heldOut, heldOutAttempts: 2, evaluateEvery: 2 })
  const { steps } = await train(options)
  const sampledBy = steps.map((step) => step.sampledBy)
  const oldest = learner.updates.map(({ batch: { sequences } }) =>
    Math.min(...sequences.map(({ policyVersion }) => policyVersion)),
  )
  expect([...sampledBy, ...oldest]).toEqual([0, 0, 2, 2, 0, 0, 2, 2])
  const evaluated = [...learner.asked].filter(([, rows]) => rows.has(2))
  expect(evaluated.map(([version]) => version)).toEqual([0, 2, 4])
})

it.each(['fails before', 'loses its answer', 'stopped'] as const)(
  'rollouts that ended beside an update that %s are those of the next step',
  async (fault) => {
    const stopped = new AbortController()
    const { learner: first, options } = await overlapped({ signal: stopped.signal })
    if (fault !== 'stopped') first.faults.set(2, fault)
    const onStep = ({ step }: { readonly step: number }): void => {
      if (step === 2) stopped.abort(new Error('stopped'))
    }
    await expect(train({ ...options, onStep })).rejects.toThrow(fault)
    const second = new CountingLearner()
    const result = await train({ ...options, learner: second, signal: AbortSignal.any([]) })
    expect(result.steps.map(({ version }) => version)).toEqual([1, 2, 3, 4])
    // Those of the steps 3 and 4, but for two or more.
    expect(second.requests.length).toBeLessThanOrEqual(6)
    const third = second.updates.at(-2)?.batch.sequences
    expect(third?.map(({ policyVersion }) => policyVersion)).toContain(1)
    expect(result.steps.map(({ batch }) => batch.stale)).toEqual([0, 0, 0, 0])
  },
)

function withoutChecksums(folder: string): void {
  const lines = readTrainingJournal(folder).map((record) =>
    JSON.stringify(record.kind === 'checkpoint' ? { ...record, sha256: undefined } : record),
  )
  writeFileSync(path.join(folder, 'training.jsonl'), `${lines.join('\n')}\n`)
}
