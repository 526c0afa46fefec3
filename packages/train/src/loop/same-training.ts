import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'

import { errorMessage, OsmosisError } from '@osmosis/core'
import type { DatasetRow } from '@osmosis/eval'
import type { RunInputs } from '@osmosis/eval/analysis'
import { writeFileAtomically } from '@osmosis/protocol/files'

import type { Learner } from '../learner.ts'
import type { TrainOptions } from './train-options.ts'

/** What of a learner must not change during a training. */
export type LearnerIdentity = Pick<Learner, 'name' | 'modelFiles' | 'trained'>

/** What of the options of a training must not change. */
export type TrainingIdentityOptions = Pick<
  TrainOptions,
  'folder' | 'rows' | 'heldOut' | 'rowsPerStep' | 'seed' | 'curriculum' | 'inputs'
>

/**
 * What must not change during a training: the steps that are done would mean something else, or the weights would not fit. How
 * rollouts are sampled, how many there are and how long they may take is decided for each step, so that a training can do what
 * its alarms say.
 */
interface TrainingIdentity {
  readonly model: string
  readonly model_files: string | null
  /** Which of the weights are trained, by the flags and keys that decide it. */
  readonly trained: NonNullable<Learner['trained']> | null
  /** SHA-256 of their content. */
  readonly rows: string
  readonly held_out_rows: string
  readonly rows_per_step: number | null
  readonly seed: number
  readonly curriculum: boolean
  /** Code and environment of the rollouts; null where the caller does not give them. */
  readonly inputs: Pick<RunInputs, 'code' | 'workflow' | 'env' | 'secrets'> | null
}

/** What errors call the parts of an identity: the flag or key of a config that decides it. */
const names = {
  model: '--model',
  model_files: 'files of the model (--model, --tokenizer)',
  rows_per_step: '--rows-per-step (rollout_batch_size)',
  seed: '--seed',
  curriculum: 'training.curriculum',
  rows: 'rows (dataset, --dataset, --where, --sample)',
  held_out_rows: 'held-out rows (dataset, --held-out)',
} as const

/**
 * Notes in `<folder>/training.json` what a training is about.
 *
 * @throws OsmosisError with code `invalid_config` or `damaged_run`, as {@link assertSameTraining} does
 */
export async function noteTraining(
  options: TrainingIdentityOptions,
  learner: LearnerIdentity,
): Promise<void> {
  const file = fileOf(options)
  if (existsSync(file)) return assertSameTraining(options, learner)
  const identity = { ...identityOf(options), ...learnerIdentityOf(learner) }
  await writeFileAtomically(file, `${JSON.stringify(identity, undefined, 2)}\n`)
}

/**
 * Compares a training with the one in its folder; without one there, there is nothing to compare.
 *
 * @param learner - as far as it is known
 * @throws OsmosisError with code `invalid_config` that names the flags and keys that have changed; `damaged_run` when
 * the file in the folder cannot be read or is not JSON
 */
export async function assertSameTraining(
  options: TrainingIdentityOptions,
  learner: Partial<LearnerIdentity> = {},
): Promise<void> {
  const file = fileOf(options)
  if (!existsSync(file)) return
  const before = await readIdentity(file)
  const changed = changes(before, { ...identityOf(options), ...learnerIdentityOf(learner) })
  if (changed.length === 0) return
  throw new OsmosisError(
    'invalid_config',
    [
      `The training in ${options.folder} was started with something else:`,
      ...changed.map((line) => `- ${line}`),
      'Restore it to continue with that training, or start a new one in another folder (osmosis train: --fresh or --name).',
    ].join('\n'),
  )
}

async function readIdentity(file: string): Promise<Partial<TrainingIdentity>> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Partial<TrainingIdentity>
  } catch (cause) {
    throw new OsmosisError(
      'damaged_run',
      `Cannot read ${file}, which says what the training was started with: ${errorMessage(cause)}. Restore this file, or start a new training in another folder (osmosis train: --fresh or --name).`,
      { cause },
    )
  }
}

function fileOf({ folder }: Pick<TrainOptions, 'folder'>): string {
  return path.join(folder, 'training.json')
}

type OwnIdentity = Omit<TrainingIdentity, 'model' | 'model_files' | 'trained'>

function identityOf(options: TrainingIdentityOptions): OwnIdentity {
  const { code, workflow = {}, env, secrets } = options.inputs ?? {}
  const isKnown = code !== undefined && env !== undefined && secrets !== undefined
  return {
    rows: digestOf(options.rows),
    held_out_rows: digestOf(options.heldOut ?? []),
    rows_per_step: options.rowsPerStep ?? null,
    seed: options.seed ?? 0,
    curriculum: options.curriculum ?? false,
    inputs: isKnown ? { code, workflow, env, secrets } : null,
  }
}

function learnerIdentityOf({
  name,
  modelFiles,
  trained,
}: Partial<LearnerIdentity>): Partial<TrainingIdentity> {
  return {
    ...(name === undefined ? {} : { model: name }),
    ...(modelFiles === undefined ? {} : { model_files: modelFiles }),
    ...(trained === undefined ? {} : { trained }),
  }
}

function digestOf(rows: readonly DatasetRow[]): string {
  const digest = createHash('sha256')
  for (const row of rows) digest.update(JSON.stringify(row)).update('\n')
  return digest.digest('hex')
}

function changes(
  before: Partial<TrainingIdentity>,
  now: OwnIdentity & Partial<TrainingIdentity>,
): string[] {
  const { inputs, rows, held_out_rows: heldOut, trained, ...settings } = now
  const contents: [string, unknown, unknown][] = [
    [names.rows, before.rows, rows],
    [names.held_out_rows, before.held_out_rows, heldOut],
    ['code of the rollout', before.inputs?.code, inputs?.code],
    ['[workflow] of the config', before.inputs?.workflow, inputs?.workflow],
    ['[env] of the config', before.inputs?.env, inputs?.env],
    ['[secrets] of the config', before.inputs?.secrets, inputs?.secrets],
  ]
  const values: [string, unknown, unknown][] = [
    ...Object.entries(settings).map(([key, value]): [string, unknown, unknown] => [
      names[key as keyof typeof settings],
      before[key as keyof typeof settings],
      value,
    ]),
    ...Object.entries(trained ?? {}).map(([key, value]): [string, unknown, unknown] => [
      key,
      before.trained?.[key],
      value,
    ]),
  ]
  return [
    ...values.flatMap(([name, was, is]) =>
      // Trainings of earlier versions do not have all of them.
      was === undefined || isSame(was, is)
        ? []
        : [`${name}: was ${JSON.stringify(was)}, is ${JSON.stringify(is)}`],
    ),
    ...contents.flatMap(([name, was, is]) => (isSame(was, is) ? [] : [`${name}: changed`])),
  ]
}

/** As JSON stores them, in any order of their keys. */
function isSame(was: unknown, is: unknown): boolean {
  const stored: unknown = is === undefined ? undefined : JSON.parse(JSON.stringify(is))
  return isDeepStrictEqual(was, stored)
}
