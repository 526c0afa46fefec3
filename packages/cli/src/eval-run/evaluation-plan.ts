import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import {
  defaultOutputRoot,
  readDataset,
  readEvalConfig,
  selectRows,
  type DatasetRow,
  type EvalConfig,
} from '@osmosis/eval'

import { assertLogFolder } from '../agent-loop/output-files.ts'
import type { ConfiguredPolicy } from '../choose-policy.ts'
import { moduleFile } from '../load-module.ts'
import { splitSpec } from '../module-export.ts'
import type { EvalRunFlags } from './eval-commands.ts'

/** What is evaluated, on which rows, and how: from a config, or from flags alone. */
export interface EvaluationPlan {
  /** The file or folder that the run is named after. */
  readonly source: string
  /** What is evaluated, for people. */
  readonly rollout: string
  /** The entrypoint as `osmosis serve` takes it; absolute. */
  readonly entrypoint: string
  /** Where its process runs. */
  readonly folder: string
  /** Added to the environment of that process. */
  readonly env: Readonly<Record<string, string>>
  readonly dataset: string
  readonly rows: readonly DatasetRow[]
  readonly n: number
  /** Null: as many as the server takes. */
  readonly maxInFlight: number | null
  readonly passThreshold: number
  /** Seconds; null is unbounded. */
  readonly agentTimeoutSeconds: number | null
  /** Seconds; null is unbounded. */
  readonly graderTimeoutSeconds: number | null
  readonly outputRoot: string
  readonly policy: ConfiguredPolicy
}

/**
 * Makes the plan of an evaluation. Flags come before the config.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint` or `invalid_dataset`
 */
export async function planEvaluation(
  configFile: string | undefined,
  flags: EvalRunFlags,
  environment: NodeJS.ProcessEnv,
): Promise<EvaluationPlan> {
  if ((configFile === undefined) === (flags.module === undefined)) {
    throw invalid('Name what to evaluate: a config, or an entrypoint as -m <file>[:<export>].')
  }
  if (flags.rows !== undefined && (flags.limit !== undefined || flags.offset !== undefined)) {
    throw invalid('--rows says which rows: leave out --limit and --offset.')
  }
  await assertLogFolder(flags.log)
  return configFile === undefined
    ? planFromFlags(flags)
    : planFromConfig(configFile, flags, environment)
}

async function planFromConfig(
  configFile: string,
  flags: EvalRunFlags,
  environment: NodeJS.ProcessEnv,
): Promise<EvaluationPlan> {
  if (flags.dataset !== undefined) throw invalid('--dataset goes with --module: a config has one.')
  const config = await readEvalConfig(configFile)
  assertSecrets(config, environment)
  const { experiment, evaluation } = config
  return {
    source: configFile,
    rollout: experiment.rollout,
    entrypoint: experiment.entrypointFile,
    folder: experiment.rolloutFolder,
    env: config.env,
    dataset: experiment.dataset,
    rows: await chosenRows(experiment.datasetFile, flags, evaluation.limit),
    n: flags.n ?? evaluation.n,
    maxInFlight: flags.maxInFlight ?? evaluation.batchSize,
    passThreshold: flags.passThreshold ?? evaluation.passThreshold,
    agentTimeoutSeconds: evaluation.agentWorkflowTimeoutSeconds,
    graderTimeoutSeconds: evaluation.graderTimeoutSeconds,
    outputRoot: flags.output ?? defaultOutputRoot(config.workspaceRoot),
    policy: {
      policy: config.policy,
      model: experiment.modelPath,
      elsewhere: ', or add a [policy] section to the config',
    },
  }
}

async function planFromFlags(flags: EvalRunFlags): Promise<EvaluationPlan> {
  const { module = '', dataset } = flags
  if (dataset === undefined) throw invalid('--module needs --dataset: the file with the rows.')
  const { file, name } = splitSpec(module)
  const found = moduleFile('entrypoint', file)
  return {
    // `main` says nothing; the folder it is in does.
    source: /^(main|index)\./.test(path.basename(found)) ? path.dirname(found) : found,
    rollout: module,
    entrypoint: name === undefined ? found : `${found}:${name}`,
    folder: path.resolve(),
    env: {},
    dataset,
    rows: await chosenRows(dataset, flags, null),
    n: flags.n ?? 1,
    maxInFlight: flags.maxInFlight ?? null,
    passThreshold: flags.passThreshold ?? 1,
    agentTimeoutSeconds: null,
    graderTimeoutSeconds: null,
    outputRoot: flags.output ?? defaultOutputRoot(path.resolve()),
    policy: {},
  }
}

async function chosenRows(
  file: string,
  { rows, offset = 0, limit }: EvalRunFlags,
  configuredLimit: number | null,
): Promise<DatasetRow[]> {
  const all = await readDataset(file)
  return selectRows(
    all,
    rows === undefined ? { offset, limit: limit ?? configuredLimit } : { rows },
  )
}

function assertSecrets({ requiredSecrets }: EvalConfig, environment: NodeJS.ProcessEnv): void {
  const missing = requiredSecrets.filter((name) => !environment[name])
  if (missing.length === 0) return
  throw invalid(
    `The rollout needs secrets that are not set in the environment: ${missing.join(', ')}.`,
  )
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
