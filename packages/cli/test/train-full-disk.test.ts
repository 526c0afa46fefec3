// @module-tag nightly
import path from 'node:path'

import { readTrainingJournal } from '@osmosis/eval'
import { expect, onTestFinished } from 'vitest'

import {
  FakeTinker,
  pythonWithTorch,
  tokenModelFolder,
  withTorch,
} from '../../../test/kit/index.ts'
import { smallDisk, withSmallDisk, type SmallDisk } from '../../../test/kit/starved/small-disk.ts'
import { doorsTraining, doorsWorkspace } from './doors-workspace.ts'
import { run } from './in-process.ts'
import { startOsmosis, workspace } from './osmosis.ts'

const { it } = withSmallDisk
const { it: itWithTorch } = pythonWithTorch() === undefined ? withTorch() : withSmallDisk

interface Training {
  readonly args: readonly string[]
  readonly folder: string
  /** In which the command runs. */
  readonly cwd: string
}

/** Three steps on a service, stored on this disk. */
async function tinkerOn({ folder }: SmallDisk): Promise<Training> {
  const service = await new FakeTinker().start()
  onTestFinished(() => service[Symbol.asyncDispose]())
  const output = path.join(folder, 'trainings')
  const where = ['--url', service.url, '--tokenizer', await tokenModelFolder(), '-o', output]
  // A name that is also the default of another flag belongs to the command that continues.
  const how = ['--name', 'tinker', '--steps', '3', '--prices', '1,2,3']
  const args = ['train', 'tinker', doorsTraining, ...where, ...how]
  return { args, folder: path.join(output, 'tinker'), cwd: workspace }
}

/** Three steps on this machine, stored on this disk. */
async function localOn({ folder }: SmallDisk): Promise<Training> {
  const { folder: cwd, learner } = await doorsWorkspace()
  const output = path.join(folder, 'trainings')
  const how = ['--steps', '3', '--n', '2', '--rows-per-step', '2', '--without-signal', '0']
  const args = ['train', 'local', doorsTraining, ...learner, ...how, '-o', output]
  return { args, folder: path.join(output, 'doors'), cwd }
}

type Ended = Awaited<ReturnType<typeof startOsmosis>['finished']>

function assertNamed({ code, stderr }: Ended, disk: SmallDisk, { args }: Training): void {
  expect(stderr).toMatch(/^error: Cannot write to .*(?:ENOSPC|the disk is full)/m)
  expect(stderr).toContain(disk.folder)
  expect(stderr).toMatch(/\d (?:bytes|KiB|MiB) are free /)
  const [, continued = ''] = /Continue:\s+(?:npx )?osmosis (train[^]*)$/.exec(stderr) ?? []
  const words = continued.replaceAll('\\\n', ' ').trim().split(/\s+/)
  const other = new Set(['-o', '1e-3']) // written differently
  expect(words).toEqual(expect.arrayContaining(args.filter((word) => !other.has(word))))
  expect(words).not.toContain('--fresh')
  expect(code).toBe(1)
}

/** Each step was made once, and the next start finishes the training. */
async function assertFinishes({ args, folder, cwd }: Training): Promise<void> {
  const { code, stdout, stderr } = await run(args, {}, cwd)
  expect(stdout, `it printed ${stderr}`).toContain('All steps are done.')
  expect(code).toBe(0)
  const steps = readTrainingJournal(folder).filter((record) => record.kind === 'step')
  expect(steps.map(({ step }) => step)).toEqual([1, 2, 3])
}

async function assertNamesFullDisk(start: typeof tinkerOn): Promise<void> {
  const disk = smallDisk(64 * 1024)
  const training = await start(disk)
  const running = startOsmosis(training.args, {}, training.cwd)
  await running.printed(/^step {3}1 /m)
  disk.fill()
  assertNamed(await running.finished, disk, training)
  disk.empty()
  await assertFinishes(training)
}

it('osmosis train tinker whose disk is full after a step says so, and continues later', () =>
  assertNamesFullDisk(tinkerOn))

itWithTorch(
  'osmosis train local whose disk is full after a step says so, and continues later',
  { tags: 'nightly', timeout: 600_000 },
  () => assertNamesFullDisk(localOn),
)

itWithTorch(
  'osmosis train local says how much room its checkpoints need before it starts',
  async () => {
    const disk = smallDisk()
    const { args, cwd } = await localOn(disk)
    const { code, stderr } = await run(args, {}, cwd)
    expect(stderr).toMatch(
      /^error: The checkpoints of the training need \d+ MB in .*, and 1 MB are free\./m,
    )
    expect(code).toBe(1)
  },
)
