import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import type { DatasetRow } from '@osmosis/eval'
import type { RunInputs } from '@osmosis/eval/analysis'
import { writeFileAtomically } from '@osmosis/protocol/files'

import type { TrainOptions } from './train-options.ts'

/** What must not change during a training: the steps that are done would mean something else. */
interface TrainingIdentity {
  readonly model: string
  readonly model_files: string | null
  /** Settings of model calls; null where the rollouts do not say. */
  readonly sampling: Readonly<Record<string, unknown>> | null
  /** SHA-256 of their content. */
  readonly rows: string
  readonly held_out_rows: string
  readonly rows_per_step: number | null
  readonly attempts: number
  readonly seed: number
  readonly warm_start: TrainOptions['warmStart'] | null
  readonly curriculum: boolean
  /** Code, environment and time limits of the rollouts; null where the caller does not give them. */
  readonly inputs: Pick<RunInputs, 'code' | 'workflow' | 'env' | 'secrets' | 'timeouts'> | null
}

/**
 * Notes in `<folder>/training.json` what a training is about, or compares with what was noted.
 *
 * @throws OsmosisError with code `invalid_config` that names what has changed
 */
export async function assertSameTraining(
  options: TrainOptions,
  sampling: TrainingIdentity['sampling'] = null,
): Promise<void> {
  const file = path.join(options.folder, 'training.json')
  const identity = { ...identityOf(options), sampling }
  if (!existsSync(file)) {
    await writeFileAtomically(file, `${JSON.stringify(identity, undefined, 2)}\n`)
    return
  }
  const before = JSON.parse(await readFile(file, 'utf8')) as Partial<TrainingIdentity>
  const changed = changes(before, identity)
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

function identityOf(options: TrainOptions): Omit<TrainingIdentity, 'sampling'> {
  const { code, workflow = {}, env, secrets, timeouts } = options.inputs ?? {}
  const isKnown = code !== undefined && env !== undefined && secrets !== undefined
  return {
    model: options.learner.name,
    model_files: options.learner.modelFiles ?? null,
    rows: digestOf(options.rows),
    held_out_rows: digestOf(options.heldOut ?? []),
    rows_per_step: options.rowsPerStep ?? null,
    attempts: options.attempts ?? 8,
    seed: options.seed ?? 0,
    warm_start: options.warmStart ?? null,
    curriculum: options.curriculum ?? false,
    inputs: isKnown && timeouts !== undefined ? { code, workflow, env, secrets, timeouts } : null,
  }
}

function digestOf(rows: readonly DatasetRow[]): string {
  const digest = createHash('sha256')
  for (const row of rows) digest.update(JSON.stringify(row)).update('\n')
  return digest.digest('hex')
}

function changes(before: Partial<TrainingIdentity>, now: TrainingIdentity): string[] {
  const { inputs, rows, held_out_rows: heldOut, ...settings } = now
  const contents: [string, unknown, unknown][] = [
    ['rows', before.rows, rows],
    ['held-out rows', before.held_out_rows, heldOut],
    ['code of the rollout', before.inputs?.code, inputs?.code],
    ['fields of the config of the workflow', before.inputs?.workflow, inputs?.workflow],
    ['env of the config', before.inputs?.env, inputs?.env],
    ['secrets of the config', before.inputs?.secrets, inputs?.secrets],
    ['time limits', before.inputs?.timeouts, inputs?.timeouts],
  ]
  return [
    ...Object.entries(settings).flatMap(([name, value]) => {
      const was = before[name as keyof TrainingIdentity]
      // Trainings of earlier versions do not have all of them.
      return was === undefined || isSame(was, value)
        ? []
        : [`${name}: was ${JSON.stringify(was)}, is ${JSON.stringify(value)}`]
    }),
    ...contents.flatMap(([name, was, is]) => (isSame(was, is) ? [] : [`${name}: changed`])),
  ]
}

function isSame(was: unknown, is: unknown): boolean {
  return JSON.stringify(was) === JSON.stringify(is)
}
