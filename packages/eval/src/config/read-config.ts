import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, dirname, extname, join, resolve, sep, isAbsolute, relative } from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'

import type { TrainingSettings } from '../analysis/training/training-settings.ts'
import type { ColumnNames } from '../dataset/raw-row.ts'
import type { ConfigKind } from './config-rules.ts'
import {
  type CheckedSections,
  parseConfig,
  tomlProblem,
  type ParsedConfig,
} from './parse-config.ts'

/** Tried in this order when the config omits the extension of the dataset. */
const datasetExtensions = ['.jsonl', '.ndjson', '.csv', '.parquet']

/** The result of looking for a file. */
type FoundFile = { readonly file: string } | { readonly problem: string }

/** The nearest folder above `file` that has `rollouts/` and `data/`. */
export async function findWorkspaceRoot(file: string): Promise<string | undefined> {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const parts = await Promise.all(
      ['rollouts', 'data'].map((part) => isFolder(join(folder, part))),
    )
    if (parts.every(Boolean)) return folder
    if (folder === dirname(folder)) return undefined
  }
}

/** Finds a file that must be inside `folder`. */
async function findInside(folder: string, path: string): Promise<FoundFile> {
  const file = resolve(folder, path)
  const fromFolder = relative(folder, file)
  if (isAbsolute(fromFolder) || fromFolder === '..' || fromFolder.startsWith(`..${sep}`)) {
    return { problem: `must lie inside ${folder}, got "${path}"` }
  }
  return existing(file)
}

/**
 * Finds a dataset: a path relative to the workspace, or the name of a file in `data/`. The extension may be
 * omitted.
 */
async function findDataset(workspaceRoot: string, dataset: string): Promise<FoundFile> {
  const bare = !/[/\\]/.test(dataset)
  const file = bare ? join(workspaceRoot, 'data', dataset) : resolve(workspaceRoot, dataset)
  if (extname(dataset) !== '') {
    if (await isFile(file)) return { file }
    return { problem: `no such file: ${file}${await filesBeside(file, datasetExtensions)}` }
  }
  const candidates = datasetExtensions.map((extension) => `${file}${extension}`)
  const areFiles = await Promise.all(candidates.map(isFile))
  const [first, ...others] = candidates.filter((_candidate, index) => areFiles[index])
  if (first === undefined) {
    const tried = `${file}${datasetExtensions.join(', ')}`
    return { problem: `no such file: ${tried}${await filesBeside(file, datasetExtensions)}` }
  }
  if (others.length === 0) return { file: first }
  return { problem: `write the extension; there are ${[first, ...others].join(' and ')}` }
}

async function existing(file: string): Promise<FoundFile> {
  return (await isFile(file)) ? { file } : { problem: `no such file: ${file}` }
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() ?? false
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false
}

/** Options of {@link readEvalConfig} and {@link readTrainingConfig}. */
export interface ReadConfigOptions {
  /** Overrides the config's dataset. Relative to the working folder. */
  readonly datasetFile?: string
}

/**
 * Reads an eval config (TOML) in an Osmosis workspace, usually in `configs/eval/`, and finds the files it
 * names. Omitted timeouts are unbounded. The policy of local runs is configured elsewhere, see
 * {@link readWorkspaceConfig}.
 *
 * @throws OsmosisError with code `invalid_config`; the message lists all problems, a line each
 */
export async function readEvalConfig(
  file: string,
  options: ReadConfigOptions = {},
): Promise<EvalConfig> {
  const parsed = parseText('eval', file, await readText('eval', file))
  const { evaluation = {} } = parsed.sections
  return {
    ...(await locateConfig('eval', file, parsed, options)),
    evaluation: {
      limit: evaluation.limit !== undefined && evaluation.limit > 0 ? evaluation.limit : null,
      n: evaluation.n ?? 1,
      batchSize: evaluation.batch_size ?? null,
      passThreshold: evaluation.pass_threshold ?? 1,
      agentWorkflowTimeoutSeconds: evaluation.agent_workflow_timeout_s ?? null,
      graderTimeoutSeconds: evaluation.grader_timeout_s ?? null,
    },
  }
}

/**
 * Reads a training config (TOML) in an Osmosis workspace, usually in `configs/training/`, and finds the files it names.
 *
 * @throws OsmosisError with code `invalid_config`; the message lists all problems, a line each
 */
export async function readTrainingConfig(
  file: string,
  options: ReadConfigOptions = {},
): Promise<TrainingConfig> {
  const parsed = parseText('training', file, await readText('training', file))
  const { training = {}, sampling = {}, checkpoints = {} } = parsed.sections
  const located = await locateConfig('training', file, parsed, options)
  return { ...located, training, sampling, checkpoints }
}

/** Finds the files that a config names, and reports all of its problems. */
async function locateConfig(
  kind: ConfigKind,
  file: string,
  {
    sections: { experiment, columns = {}, workflow = {}, env = {}, secrets, advanced = {} },
    problems,
    missingForPlatform,
  }: Omit<ParsedConfig<'eval'>, 'sections'> & { readonly sections: CommonSections },
  options: ReadConfigOptions,
): Promise<LocatedConfig> {
  const path = resolve(file)
  const platformProblems = [...missingForPlatform]
  const workspaceRoot = await findWorkspaceRoot(path)
  if (workspaceRoot === undefined) {
    problems.push('not in an Osmosis workspace: no folder above has both rollouts/ and data/')
    throw invalidConfig(kind, file, problems)
  }
  const files = await findConfigFiles(workspaceRoot, experiment, { ...options, problems })
  if (problems.length > 0) throw invalidConfig(kind, file, problems)
  if (!path.startsWith(join(workspaceRoot, 'configs', kind) + sep)) {
    platformProblems.push(`not in configs/${kind}/ of the workspace; move it there`)
  }
  if (!experiment || !files.entrypoint || !files.dataset) {
    throw new TypeError('A config without problems has all of its sections and files.')
  }
  return {
    path,
    workspaceRoot,
    experiment: {
      rollout: experiment.rollout,
      entrypoint: experiment.entrypoint,
      modelPath: experiment.model_path,
      dataset: experiment.dataset,
      branch: experiment.branch ?? null,
      commitSha: experiment.commit_sha ?? null,
      rolloutFolder: rolloutFolder(workspaceRoot, experiment.rollout),
      entrypointFile: files.entrypoint,
      datasetFile: files.dataset,
      columns,
    },
    workflow,
    env,
    requiredSecrets: secrets?.required ?? [],
    advanced,
    platformProblems,
  }
}

async function readText(kind: ConfigKind, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT'
    const hasEnding = extname(file) !== ''
    const meant = hasEnding ? file : join('configs', kind, `${basename(file)}.toml`)
    const advice = hasEnding ? '' : `. A config is a file: ${meant}`
    const why = isMissing
      ? `there is no such file${advice}${await filesBeside(meant, ['.toml'])}`
      : errorMessage(cause)
    throw new OsmosisError('invalid_config', `Cannot read the ${kind} config ${file}: ${why}`, {
      cause,
    })
  }
}

/** Names what a missing file could have been: the files of its folder with one of the extensions. */
async function filesBeside(file: string, extensions: readonly string[]): Promise<string> {
  const folder = dirname(file)
  const names = await readdir(folder).catch(() => [])
  const others = names.filter((name) => extensions.includes(extname(name))).toSorted()
  return others.length > 0 ? `. ${folder} has ${others.join(', ')}.` : ''
}

function parseText<Kind extends ConfigKind>(
  kind: Kind,
  file: string,
  text: string,
): ParsedConfig<Kind> {
  try {
    return parseConfig(kind, text)
  } catch (error) {
    throw invalidConfig(kind, file, [tomlProblem(error)], error)
  }
}

function invalidConfig(
  kind: ConfigKind,
  file: string,
  problems: readonly string[],
  cause?: unknown,
): OsmosisError {
  const lines = problems.map((problem) => `- ${problem}`)
  const message = [`Invalid ${kind} config ${file}:`, ...lines].join('\n')
  return new OsmosisError('invalid_config', message, cause === undefined ? {} : { cause })
}

/** The sections that configs of both kinds have. */
type CommonSections = Pick<
  CheckedSections<'training'>,
  'experiment' | 'columns' | 'workflow' | 'env' | 'secrets' | 'advanced'
>

/** The files that a config names; absolute, undefined for a missing file. */
interface ConfigFiles {
  readonly entrypoint: string | undefined
  readonly dataset: string | undefined
}

/** Finds the files of a config and adds a line to `problems` for each missing file. */
async function findConfigFiles(
  workspaceRoot: string,
  experiment: CommonSections['experiment'],
  options: { datasetFile?: string; problems: string[] },
): Promise<ConfigFiles> {
  function expectFile(key: string, found: FoundFile): string | undefined {
    if ('file' in found) return found.file
    options.problems.push(`${key}: ${found.problem}`)
    return undefined
  }
  const { datasetFile } = options
  return {
    entrypoint:
      experiment &&
      expectFile(
        'experiment.entrypoint',
        await findInside(rolloutFolder(workspaceRoot, experiment.rollout), experiment.entrypoint),
      ),
    dataset:
      datasetFile === undefined
        ? experiment &&
          expectFile('experiment.dataset', await findDataset(workspaceRoot, experiment.dataset))
        : resolve(datasetFile),
  }
}

/** The folder of a rollout. */
function rolloutFolder(workspaceRoot: string, rollout: string): string {
  return join(workspaceRoot, 'rollouts', rollout)
}

/** `[experiment]`: what is evaluated, with its files. */
export interface ExperimentConfig {
  readonly rollout: string
  readonly entrypoint: string
  readonly modelPath: string
  readonly dataset: string
  readonly branch: string | null
  readonly commitSha: string | null
  /** `<workspace>/rollouts/<rollout>`; absolute. */
  readonly rolloutFolder: string
  /** Inside `rolloutFolder`; absolute. */
  readonly entrypointFile: string
  /** Absolute. */
  readonly datasetFile: string
  /** `[columns]`: the columns of the dataset that have other names. */
  readonly columns: ColumnNames
}

/** `[evaluation]`: how it is evaluated. */
export interface EvaluationConfig {
  /** Maximum rows of the dataset. Null: all. */
  readonly limit: number | null
  /** Attempts per row. Default: 1. */
  readonly n: number
  /** Maximum concurrent rollouts. Null: as many as the rollout server accepts. */
  readonly batchSize: number | null
  /** The least reward of a passed attempt. Default: 1. */
  readonly passThreshold: number
  /** Seconds. Null: unbounded. */
  readonly agentWorkflowTimeoutSeconds: number | null
  /** Seconds. Null: unbounded. */
  readonly graderTimeoutSeconds: number | null
}

/** What configs of both kinds have. */
export interface LocatedConfig {
  /** The file it was read from; absolute. */
  readonly path: string
  /** The nearest folder above the config that has `rollouts/` and `data/`; absolute. */
  readonly workspaceRoot: string
  readonly experiment: ExperimentConfig
  /** `[workflow]`: fields of the workflow's config that have other values. */
  readonly workflow: Readonly<Record<string, unknown>>
  /** `[env]`: plain variables for the rollout server. */
  readonly env: Readonly<Record<string, string>>
  /** `[secrets] required`: names of variables that must have a value. */
  readonly requiredSecrets: readonly string[]
  /** `[advanced]`, unchecked. */
  readonly advanced: Readonly<Record<string, unknown>>
  /** Problems that prevent a run on the hosted platform, but not a local run; one line each. */
  readonly platformProblems: readonly string[]
}

/** A checked eval config. */
export interface EvalConfig extends LocatedConfig {
  readonly evaluation: EvaluationConfig
}

/** A checked training config. Its own sections have the keys of the file. */
export interface TrainingConfig extends LocatedConfig {
  readonly training: {
    readonly lr?: number | undefined
    readonly total_epochs?: number | undefined
    readonly n_samples_per_prompt?: number | undefined
    readonly rollout_batch_size?: number | undefined
    readonly max_prompt_length?: number | undefined
    readonly max_response_length?: number | undefined
    readonly agent_workflow_timeout_s?: number | undefined
    readonly grader_timeout_s?: number | undefined
  } & TrainingSettings
  readonly sampling: {
    readonly rollout_temperature?: number | undefined
    readonly rollout_top_p?: number | undefined
  }
  readonly checkpoints: {
    readonly eval_interval?: number | undefined
    readonly checkpoint_save_freq?: number | undefined
  }
}
