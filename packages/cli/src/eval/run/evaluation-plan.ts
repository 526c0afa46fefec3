import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import {
  defaultOutputRoot,
  readDataset,
  readEvalConfig,
  readWorkspaceConfig,
  selectRows,
  type DatasetRow,
  type EvalConfig,
} from '@osmosis/eval'

import { assertLogFolder } from '../../command/output-files.ts'
import {
  fromHere,
  hideSecrets,
  namedHere,
  protectData,
  workingFolder,
} from '../../command/surroundings.ts'
import { workspaceHere, type PolicySurroundings } from '../../inputs/choose-policy.ts'
import { readSecretsFile } from '../../inputs/environment.ts'
import { moduleFile, splitSpec } from '../../inputs/load-module.ts'
import {
  evaluationQueue,
  type EvaluationQueue,
  evaluationServer,
  serverKey,
  type EvaluationServer,
} from '../models/remote-servers.ts'
import type { EvalRunFlags } from '../run.ts'

/** What is evaluated, on which rows, and how: from a config, or from flags alone. */
export interface EvalRunPlan {
  /** The file or folder that the run is named after. */
  readonly source: string
  /** What is evaluated, for people. */
  readonly rollout: string
  /** The entrypoint as `osmosis serve` takes it; absolute. With a server, its URL. */
  readonly entrypoint: string
  /** Where its process runs. */
  readonly folder: string
  /** Added to the environment of that process. */
  readonly env: Readonly<Record<string, string>>
  /** As config or flag name it. */
  readonly dataset: string
  readonly datasetFile: string
  /** All rows of it. */
  readonly allRows: readonly DatasetRow[]
  /** Those that are wanted. */
  readonly rows: readonly DatasetRow[]
  readonly n: number
  /** Relative to the workspace; null without a config. */
  readonly config: string | null
  /** What names of files in the inputs of a run are relative to. */
  readonly root: string
  /** Holds the sources of the rollout. */
  readonly sourceFolder: string
  /** Null: as many as the server takes. */
  readonly maxInFlight: number | null
  readonly passThreshold: number
  /** Seconds; null is unbounded. */
  readonly agentTimeoutSeconds: number | null
  /** Seconds; null is unbounded. */
  readonly graderTimeoutSeconds: number | null
  readonly outputRoot: string
  readonly policy: PolicySurroundings
  /** Undefined: rollouts run on this machine. */
  readonly queue: EvaluationQueue | undefined
  /** Where rollouts run; undefined: in a process that the evaluation starts, or on the workers of the queue. */
  readonly server: EvaluationServer | undefined
  /** By their names; added to the environment of that process, and shown nowhere. */
  readonly secrets: Readonly<Record<string, string>>
  /** What the platform would refuse about the config. */
  readonly platformProblems: readonly string[]
}

/**
 * Makes the plan of an evaluation. Flags come before the config.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint` or `invalid_dataset`
 */
export async function planEvaluation(
  configFile: string | undefined,
  flags: Partial<EvalRunFlags>,
  environment: NodeJS.ProcessEnv,
): Promise<EvalRunPlan> {
  const server = evaluationServer(flags)
  const isNamed = configFile !== undefined || flags.module !== undefined
  const isNamedTwice = configFile !== undefined && flags.module !== undefined
  if (isNamedTwice || (!isNamed && server === undefined)) {
    throw invalid(
      'Name what to evaluate: a config, an entrypoint as -m <file>[:<export>], or a server that is up as --server <url>.',
    )
  }
  if (flags.rows !== undefined && (flags.limit !== undefined || flags.offset !== undefined)) {
    throw invalid('--rows says which rows: leave out --limit and --offset.')
  }
  await assertLogFolder(flags.log)
  const plan =
    configFile === undefined
      ? await planFromFlags(flags, server)
      : await planFromConfig(configFile, flags, server === undefined ? environment : undefined)
  // What is evaluated is what is served there, wherever the sources are.
  if (server === undefined) return plan
  // Behind the rows, in which it may occur.
  const apiKey = serverKey(flags.serverApiKeyEnv, environment)
  return { ...plan, server: { ...server, apiKey }, entrypoint: server.url }
}

/** @param environment - where its secrets are; undefined when nothing that runs here gets them */
async function planFromConfig(
  configFile: string,
  flags: Partial<EvalRunFlags>,
  environment: NodeJS.ProcessEnv | undefined,
): Promise<EvalRunPlan> {
  const config = await readEvalConfig(
    namedHere(configFile),
    flags.dataset === undefined ? {} : { datasetFile: fromHere(flags.dataset) },
  )
  const { experiment, evaluation, workspaceRoot: root } = config
  const workspace = await readWorkspaceConfig(config.workspaceRoot)
  const queue = evaluationQueue(flags, workspace.queue)
  const allRows = await readDataset(experiment.datasetFile)
  protectData(allRows)
  const secrets = environment ? await findSecrets(config, flags.secretsFile, environment) : {}
  hideSecrets(secrets)
  return {
    source: configFile,
    rollout: experiment.rollout,
    entrypoint: experiment.entrypointFile,
    folder: experiment.rolloutFolder,
    env: config.env,
    dataset: flags.dataset ?? experiment.dataset,
    datasetFile: experiment.datasetFile,
    allRows,
    rows: chosenRows(allRows, flags, evaluation.limit),
    config: path.relative(root, config.path),
    root,
    sourceFolder: experiment.rolloutFolder,
    n: flags.n ?? evaluation.n,
    maxInFlight: flags.maxInFlight ?? evaluation.batchSize,
    passThreshold: flags.threshold ?? evaluation.passThreshold,
    agentTimeoutSeconds: evaluation.agentWorkflowTimeoutSeconds,
    graderTimeoutSeconds: evaluation.graderTimeoutSeconds,
    outputRoot: outputRoot(flags, config.workspaceRoot),
    policy: {
      workspace,
      model: experiment.modelPath,
      folder: experiment.rolloutFolder,
    },
    queue,
    server: undefined,
    secrets,
    platformProblems: config.platformProblems,
  }
}

async function planFromFlags(
  flags: Partial<EvalRunFlags>,
  server: EvaluationServer | undefined,
): Promise<EvalRunPlan> {
  const { module = '', dataset } = flags
  if (dataset === undefined) {
    const flag = server === undefined ? '--module' : '--server without a config'
    throw invalid(`${flag} needs --dataset: the file with the rows.`)
  }
  if (flags.secretsFile !== undefined) {
    throw invalid('--secrets-file goes with a config, which says what secrets there are.')
  }
  const { file, name } = splitSpec(module)
  const found = server === undefined ? moduleFile('entrypoint', file) : fromHere(dataset)
  const workspace = await workspaceHere()
  const queue = evaluationQueue(flags, workspace.queue)
  const allRows = await readDataset(namedHere(dataset))
  protectData(allRows)
  return {
    // `main` says nothing; the folder it is in does.
    source: /^(main|index)\./.test(path.basename(found)) ? path.dirname(found) : found,
    rollout: server?.url ?? module,
    entrypoint: name === undefined ? found : `${found}:${name}`,
    folder: workingFolder(),
    env: {},
    dataset,
    datasetFile: fromHere(dataset),
    allRows,
    rows: chosenRows(allRows, flags, null),
    config: null,
    root: workingFolder(),
    sourceFolder: path.dirname(found),
    n: flags.n ?? 1,
    maxInFlight: flags.maxInFlight ?? null,
    passThreshold: flags.threshold ?? 1,
    agentTimeoutSeconds: null,
    graderTimeoutSeconds: null,
    outputRoot: outputRoot(flags, workingFolder()),
    policy: { workspace },
    queue,
    server,
    secrets: {},
    platformProblems: [],
  }
}

/** Absolute. */
function outputRoot({ output }: Partial<EvalRunFlags>, root: string): string {
  return output === undefined ? defaultOutputRoot(root) : fromHere(output)
}

function chosenRows(
  all: readonly DatasetRow[],
  { rows, offset = 0, limit }: Partial<EvalRunFlags>,
  configuredLimit: number | null,
): DatasetRow[] {
  return selectRows(
    all,
    rows === undefined ? { offset, limit: limit ?? configuredLimit } : { rows },
  )
}

async function findSecrets(
  { requiredSecrets }: EvalConfig,
  file: string | undefined,
  environment: NodeJS.ProcessEnv,
): Promise<Record<string, string>> {
  const written = file === undefined ? new Map<string, string>() : await readSecretsFile(file)
  const secrets: Record<string, string> = {}
  for (const name of requiredSecrets) {
    const value = written.get(name) ?? environment[name]
    if (value) secrets[name] = value
  }
  const missing = requiredSecrets.filter((name) => !Object.hasOwn(secrets, name))
  if (missing.length === 0) return secrets
  throw invalid(
    `The rollout needs secrets that have no value: ${missing.join(', ')}. Set them in the environment or in .env, or pass --secrets-file <file>.`,
  )
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
