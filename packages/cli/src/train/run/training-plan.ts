import { existsSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
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
import { settingOptions, type SettingOptions } from '@osmosis/eval/analysis'
import type { TrainOptions } from '@osmosis/train'

import {
  resolvePath,
  fromWorkingFolder,
  displayPath,
  protectData,
} from '../../command/command-context.ts'
import { readEnvironment } from '../../command/environment.ts'
import { flagArguments, type RowFlags } from '../../command/flags.ts'
import { invalid } from '../../command/wrong-use.ts'
import { runsRoot } from '../../eval/show/shown-run.ts'
import { trainingsRoot } from '../../eval/training/find-training.ts'
import { configuredSubject, type RunSubject } from '../../inputs/run-subject.ts'
import type { TrainingFlags } from '../training-flags.ts'

/** What is trained, on which rows, and how: the config with its flags. */
export interface TrainingPlan {
  readonly config: TrainingConfig
  /** The code that runs, and what is given to it. */
  readonly subject: RunSubject
  readonly name: string
  /** The training in commands: its name where that is enough, else its folder. */
  readonly command: string
  /** The arguments of `osmosis` that continue it. */
  readonly continueWith: readonly string[]
  /** What `train()` gets, but for learner, server and listeners. */
  readonly options: PlannedOptions
  /** Options of `train()` and of the learner on this machine that keys of the config set. */
  readonly settings: SettingOptions
  /** Steps of `--warm-start` before the others, those that a training that continues has made included. */
  readonly warmSteps: number
  /** Steps that the training has made which continues; undefined for a new one. */
  readonly made: number | undefined
  /** The file with the held-out rows. */
  readonly heldOutFile: string
  /** Maximum number of concurrent rollouts; undefined: what the learner answers at once. */
  readonly maxInFlight: number | undefined
  /** Maximum number of tokens in a conversation. */
  readonly maxLength: number
  /** For each model call. */
  readonly sampling: { readonly max_tokens: number; readonly temperature?: number }
  /** Environment of the process that serves the entrypoint. */
  readonly environment: NodeJS.ProcessEnv
  /** Keys of the config that have no effect here, each with the reason. */
  readonly unused: readonly string[]
  readonly isDry: boolean
  readonly isFresh: boolean
  readonly isQuiet: boolean
}

type PlannedOptions = Required<
  Pick<
    TrainOptions,
    'folder' | 'rows' | 'heldOut' | 'rowsPerStep' | 'attempts' | 'steps' | 'update' | 'names'
  >
> &
  Omit<TrainOptions, 'learner' | 'rollouts' | 'maxInFlight' | 'inputs' | 'provenance' | 'signal'>

/** What a trainer adds to a plan. */
export interface PlannedTrainer {
  readonly kind: 'local' | 'tinker'
  /** Its flags without any on the command line: the defaults. */
  readonly defaults: object
  readonly learningRate: number
  /** Arguments for values that flags repeat in another form than their own. */
  readonly repeated?: readonly string[]
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
  trainer: PlannedTrainer,
): Promise<TrainingPlan> {
  const environment = readEnvironment()
  const config = await readTrainingConfig(
    displayPath(configFile),
    flags.dataset === undefined ? {} : { datasetFile: resolvePath(flags.dataset) },
  )
  const { training, sampling, checkpoints, experiment } = config
  const { columns } = experiment
  const all = await readDataset(experiment.datasetFile, { columns })
  const { rows, heldOut } = splitRows(
    all,
    flags.heldOut === undefined
      ? undefined
      : await readDataset(displayPath(flags.heldOut), { columns }),
    flags,
  )
  protectData([...rows, ...heldOut])
  const subject = {
    ...(await configuredSubject(config, flags, environment)),
    agentTimeoutSeconds: training.agent_workflow_timeout_s ?? null,
    graderTimeoutSeconds: training.grader_timeout_s ?? null,
  }
  const { fresh = false, warmStart } = flags
  const name = flags.name ?? path.basename(configFile, path.extname(configFile))
  assertRunName(name)
  const root =
    flags.output === undefined
      ? path.join(config.workspaceRoot, '.osmosis', 'training')
      : resolvePath(flags.output)
  const folder = path.join(root, name)
  const made =
    !fresh && isTraining(folder)
      ? readTrainingJournal(folder).filter((record) => record.kind === 'step')
      : undefined
  const warmMade = made?.filter(({ phase }) => phase === 'warm_start').length ?? 0
  const warmSteps = Math.max(warmStart === undefined ? 0 : 3, warmMade)
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
  const settings = settingOptions(training)
  const { rollout_temperature: temperature } = sampling
  const { withoutSignal } = flags
  return {
    config,
    subject,
    name,
    command: root === trainingsRoot(await runsRoot(undefined)) ? name : fromWorkingFolder(folder),
    continueWith: [
      'train',
      trainer.kind,
      configFile,
      ...flagArguments(flags, new Set(['fresh']), trainer.defaults),
      ...(trainer.repeated ?? []),
    ],
    options: {
      ...settings.training,
      folder,
      rows,
      heldOut,
      rowsPerStep,
      attempts: flags.n ?? training.n_samples_per_prompt ?? defaults.attempts,
      steps: flags.steps ?? Math.ceil((rows.length * epochs) / rowsPerStep),
      seed: flags.seed ?? 0,
      ...(warmStart !== undefined && { warmStart: { threshold: warmStart, steps: warmSteps } }),
      evaluateEvery: checkpoints.eval_interval ?? 0,
      checkpointEvery: checkpoints.checkpoint_save_freq ?? 1,
      update: {
        ...settings.update,
        longestAnswer: response,
        learningRate: flags.lr ?? training.lr ?? trainer.learningRate,
      },
      stopWhen: { ...settings.stopWhen, ...(withoutSignal !== undefined && { withoutSignal }) },
      names: { rollout: subject.rollout, dataset: subject.dataset },
    },
    settings,
    warmSteps,
    made: made?.length,
    heldOutFile: flags.heldOut ?? subject.datasetFile,
    maxInFlight: flags.maxInFlight,
    maxLength,
    sampling: { max_tokens: response, ...(temperature !== undefined && { temperature }) },
    environment: {
      ...environment,
      ...subject.env,
      ...subject.secrets,
      _OSMOSIS_ROLLOUT_ARTIFACT_ROOT: path.join(folder, 'artifacts'),
    },
    unused: unusedKeys(config, flags),
    isDry: flags.dryRun ?? false,
    isFresh: fresh,
    isQuiet: flags.quiet ?? false,
  }
}

/** Renames the folder of an existing training to `<name>.1`, or the next number that is free. */
export async function archiveTraining({ options: { folder } }: TrainingPlan): Promise<void> {
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
      : `experiment.model_path (${experiment.modelPath}): --model names the model that is trained`,
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
): Pick<PlannedOptions, 'rows' | 'heldOut'> {
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
