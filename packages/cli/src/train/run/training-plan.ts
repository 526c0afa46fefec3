import path from 'node:path'
import { existsSync } from 'node:fs'
import { rename } from 'node:fs/promises'

import {
  assertRunName,
  isTraining,
  readDataset,
  readTrainingConfig,
  readTrainingJournal,
  type DatasetRow,
  type TrainingConfig,
  placeOf,
  rowValue,
  selectRows,
} from '@osmosis/eval'
import { OsmosisError } from '@osmosis/core'

import {
  resolvePath,
  fromWorkingFolder,
  hideSecrets,
  displayPath,
  protectData,
} from '../../command/command-context.ts'
import { runsRoot } from '../../eval/show/shown-run.ts'
import { trainingsRoot } from '../../eval/training/find-training.ts'
import { invalid } from '../../command/exit-codes.ts'
import { requiredSecrets } from '../../command/environment.ts'
import type { TrainingFlags } from '../training-flags.ts'
import type { RowFlags } from '../../command/flags.ts'

/** What is trained, on which rows, and how: the config with its flags. */
export interface TrainingPlan {
  readonly config: TrainingConfig
  readonly name: string
  /** Folder of the training; absolute. */
  readonly folder: string
  /** The training in commands: its name where that is enough, else its folder. */
  readonly command: string
  readonly rows: readonly DatasetRow[]
  readonly heldOut: readonly DatasetRow[]
  readonly steps: number
  /** Steps of `--warm-start` before these, those that a training that continues has made included. */
  readonly warmSteps: number
  readonly rowsPerStep: number
  readonly attempts: number
  /** Maximum number of tokens in a conversation. */
  readonly maxLength: number
  /** For each model call. */
  readonly sampling: Readonly<Record<string, number>>
  readonly secrets: Readonly<Record<string, string>>
  /** Keys of the config that have no effect here, each with the reason. */
  readonly unused: readonly string[]
}

/** Where the weights are exported to, in the folder of the training. */
export const modelFolders = { last: 'model', best: 'best-model' } as const

const defaults = { prompt: 2048, response: 2048, rows: 16, attempts: 8 }

/**
 * Makes the plan of a training. Flags come before the config.
 *
 * @throws OsmosisError with code `invalid_config` or `invalid_dataset`
 */
export async function planTraining(
  configFile: string,
  flags: TrainingFlags,
  environment: NodeJS.ProcessEnv,
): Promise<TrainingPlan> {
  const config = await readTrainingConfig(
    displayPath(configFile),
    flags.dataset === undefined ? {} : { datasetFile: resolvePath(flags.dataset) },
  )
  const { training, sampling, workspaceRoot } = config
  const all = await readDataset(config.experiment.datasetFile)
  const { rows, heldOut } = splitRows(
    all,
    flags.heldOut === undefined ? undefined : await readDataset(displayPath(flags.heldOut)),
    flags,
  )
  protectData([...rows, ...heldOut])
  const secrets = await requiredSecrets(config.requiredSecrets, flags.secretsFile, environment)
  hideSecrets(secrets)
  const name = flags.name ?? path.basename(configFile, path.extname(configFile))
  assertRunName(name)
  const root =
    flags.output === undefined
      ? path.join(workspaceRoot, '.osmosis', 'training')
      : resolvePath(flags.output)
  const folder = path.join(root, name)
  const wanted = flags.rowsPerStep ?? training.rollout_batch_size ?? defaults.rows
  const rowsPerStep = Math.min(wanted, rows.length)
  const epochs = training.total_epochs ?? 1
  const response = training.max_response_length ?? defaults.response
  const maxLength = flags.maxLength ?? (training.max_prompt_length ?? defaults.prompt) + response
  if (maxLength <= response) {
    throw invalid(
      `--max-length ${maxLength} leaves no room for a prompt beside an answer of ${response} tokens: raise it, or lower training.max_response_length.`,
    )
  }
  return {
    config,
    name,
    folder,
    command: root === trainingsRoot(await runsRoot(undefined)) ? name : fromWorkingFolder(folder),
    rows,
    heldOut,
    steps: flags.steps ?? Math.ceil((rows.length * epochs) / rowsPerStep),
    warmSteps: Math.max(flags.warmStart === undefined ? 0 : 3, warmStepsIn(folder, flags)),
    rowsPerStep,
    attempts: flags.n ?? training.n_samples_per_prompt ?? defaults.attempts,
    maxLength,
    sampling: {
      max_tokens: response,
      ...(sampling.rollout_temperature === undefined
        ? {}
        : { temperature: sampling.rollout_temperature }),
    },
    secrets,
    unused: unusedKeys(config, flags),
  }
}

function warmStepsIn(folder: string, { fresh }: TrainingFlags): number {
  if (fresh === true || !isTraining(folder)) return 0
  const steps = readTrainingJournal(folder).filter((record) => record.kind === 'step')
  return steps.filter(({ phase }) => phase === 'warm_start').length
}

/** Renames the folder of an existing training to `<name>.1`, or the next number that is free. */
export async function archiveTraining({ folder }: TrainingPlan): Promise<void> {
  if (!existsSync(folder)) return
  let number = 1
  while (existsSync(`${folder}.${number}`)) number += 1
  await rename(folder, `${folder}.${number}`)
}

function unusedKeys(
  { experiment, sampling, advanced }: TrainingConfig,
  { model }: TrainingFlags,
): string[] {
  const topP = sampling.rollout_top_p
  return [
    model === undefined
      ? ''
      : `experiment.model_path (${experiment.modelPath}): --model replaces it`,
    topP === undefined || topP === 1
      ? ''
      : `sampling.rollout_top_p (${topP}): the logprobs of a truncated distribution cannot be trained`,
    ...(experiment.branch ? ['experiment.branch: the files of this folder are used'] : []),
    ...(experiment.commitSha ? ['experiment.commit_sha: the files of this folder are used'] : []),
    ...Object.keys(advanced).map((key) => `advanced.${key}: for the hosted platform`),
  ].filter((line) => line !== '')
}

/** Most held-out rows unless a file has them. */
const mostHeldOut = 50
const shownPlaces = 5

/**
 * Splits the rows that flags select. Without held-out rows of their own, those of the split `validation` are held out;
 * without such a split every fifth row, the first of each five.
 *
 * @param all - every row of the dataset
 * @throws OsmosisError with code `invalid_dataset` when a trained row is of a split that must not be trained, or too few
 * rows are left
 */
function splitRows(
  all: readonly DatasetRow[],
  heldOut: readonly DatasetRow[] | undefined,
  { where, sample, seed }: RowFlags & { readonly seed?: number | undefined },
): Pick<TrainingPlan, 'rows' | 'heldOut'> {
  const ofSplit = heldOut ?? all.filter((row) => splitOf(row) === 'validation')
  const own = heldOut === undefined ? all.filter((row) => splitOf(row) !== 'validation') : all
  const rows = selectRows(own, { where, sample, seed })
  assertTrainable(rows)
  if (heldOut !== undefined) return { rows, heldOut }
  if (ofSplit.length > 0) return { rows, heldOut: ofSplit.slice(0, mostHeldOut) }
  if (rows.length < 5) {
    throw new OsmosisError(
      'invalid_dataset',
      `A training needs at least 5 rows, of which one is held out, and ${rows.length === all.length ? 'the dataset has' : 'the flags leave'} ${rows.length}. Add rows, or pass --held-out <file>.`,
    )
  }
  const fifth = rows.filter((_, at) => at % 5 === 0).slice(0, mostHeldOut)
  const held = new Set(fifth)
  return { rows: rows.filter((row) => !held.has(row)), heldOut: fifth }
}

function splitOf(row: DatasetRow): string | undefined {
  return rowValue(row, 'split')
}

/** Figures of a model that was trained on test rows would say nothing. */
function assertTrainable(rows: readonly DatasetRow[]): void {
  for (const split of ['test', 'validation']) {
    const wrong = rows.filter((row) => splitOf(row) === split)
    if (wrong.length === 0) continue
    const places = wrong.slice(0, shownPlaces).map(placeOf).join(', ')
    const more = wrong.length > shownPlaces ? ` and ${wrong.length - shownPlaces} more` : ''
    throw new OsmosisError(
      'invalid_dataset',
      `The rows to train have rows of the split "${split}": ${places}${more}. Pass --where split=train, or remove them from the dataset.`,
    )
  }
}
