import { invalid } from '../../command/exit-codes.ts'
import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError, isRewardFunction } from '@osmosis/core'
import {
  defaultOutputRoot,
  readDataset,
  readEvalConfig,
  readWorkspaceConfig,
  selectRows,
  type DatasetRow,
  type EvalConfig,
  toScorer,
  type Scorer,
  findWorkspaceRoot,
} from '@osmosis/eval'

import {
  resolvePath,
  hideKeys,
  displayPath,
  protectData,
  workingFolder,
  fromWorkingFolder,
} from '../../command/command-context.ts'
import {
  evaluationQueue,
  type EvaluationQueue,
  evaluationServer,
  type EvaluationServer,
} from '../models/remote-servers.ts'
import type { EvalRunFlags } from '../run.ts'
import { currentWorkspace, type PolicyDefaults } from '../../inputs/choose-policy.ts'
import { configuredSubject, type RunSubject } from '../../inputs/run-subject.ts'
import { moduleFile, splitSpec, loadExports, namedExport } from '../../inputs/load-module.ts'

/** The plan of an evaluation: what flags and a config decide before anything is served. */
export interface EvalRunPlan extends RunSubject {
  /** The file or folder that the run is named after. */
  readonly source: string
  /** All rows of the dataset. */
  readonly allRows: readonly DatasetRow[]
  /** The selected rows. */
  readonly rows: readonly DatasetRow[]
  readonly n: number
  /** Relative to the workspace; null without a config. */
  readonly config: string | null
  /** Null: the limit of the server. */
  readonly maxInFlight: InFlight | null
  readonly passThreshold: number
  /** Parameters of the model calls, by their names on the wire; they replace those of the code. */
  readonly params: Readonly<Record<string, number>>
  /** Of an agent loop; null: its own limit. */
  readonly maxTurns: number | null
  /** Whether nothing but a grader would score the rollouts. */
  readonly needsGrader: boolean
  readonly outputRoot: string
  readonly policy: PolicyDefaults
  /** Of the process that serves the entrypoint. */
  readonly environment: NodeJS.ProcessEnv
  /** Processes that run the workflow; undefined: that which serves it. */
  readonly workers: number | 'auto' | undefined
  /** Undefined: rollouts run on this machine. */
  readonly queue: EvaluationQueue | undefined
  /** A running server; undefined when the evaluation starts one. */
  readonly server: EvaluationServer | undefined
  /** Why the platform would refuse the config. */
  readonly platformProblems: readonly string[]
}

/** The maximum number of concurrent rollouts, and its source. */
export interface InFlight {
  readonly limit: number
  readonly why: string
}

/**
 * Makes the plan of an evaluation. Flags override the config; without one, they are the config.
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
      `Name what to evaluate: a config, an entrypoint as -m <file>[:<export>], or a running server as --server <url>.${isNamedTwice ? '' : await configsText()}`,
    )
  }
  const { rows: _, ...others } = flags
  if (flags.rows !== undefined && selectsRows(others)) {
    throw invalid('--rows selects the rows: omit --limit, --where and --sample.')
  }
  const config =
    configFile === undefined
      ? configOfFlags(flags, server)
      : await readEvalConfig(
          displayPath(configFile),
          flags.dataset === undefined ? {} : { datasetFile: resolvePath(flags.dataset) },
        )
  const { experiment, evaluation, workspaceRoot: root } = config
  const workspace =
    configFile === undefined ? await currentWorkspace() : await readWorkspaceConfig(root)
  const queue = evaluationQueue(flags, workspace.queue)
  const allRows = await readDataset(
    configFile === undefined ? experiment.dataset : experiment.datasetFile,
  )
  protectData(allRows)
  const subject = await configuredSubject(
    config,
    flags,
    server === undefined ? environment : undefined,
  )
  const workflow = { ...subject.workflow, ...flags.set }
  if (server !== undefined && Object.keys(workflow).length > 0) {
    throw invalid(
      '[workflow] of the config and --set do not reach the workflow behind a running server: remove them here, and pass --set to osmosis serve.',
    )
  }
  // After the rows were read: they may contain the text of the key.
  const apiKey = server && (environment['OSMOSIS_ROLLOUT_SERVER_API_KEY'] || undefined)
  hideKeys(apiKey)
  const folder = configFile === undefined ? workingFolder() : subject.folder
  const { batchSize } = evaluation
  const { temperature, maxTokens, maxInFlight } = flags
  return {
    ...subject,
    // A running server has its own sources.
    ...(server && { entrypoint: server.url, sourceFolder: null }),
    folder,
    workflow,
    source: config.path,
    allRows,
    rows: chosenRows(allRows, flags, evaluation.limit),
    n: flags.n ?? evaluation.n,
    config: configFile === undefined ? null : path.relative(root, config.path),
    maxInFlight:
      maxInFlight !== undefined
        ? { limit: maxInFlight, why: '--max-in-flight' }
        : batchSize === null
          ? null
          : { limit: batchSize, why: 'batch_size of the config' },
    passThreshold: evaluation.passThreshold,
    agentTimeoutSeconds: evaluation.agentWorkflowTimeoutSeconds,
    graderTimeoutSeconds: evaluation.graderTimeoutSeconds,
    params: {
      ...(temperature !== undefined && { temperature }),
      ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    },
    maxTurns: flags.maxTurns ?? null,
    needsGrader: flags.grader !== false && (flags.evalFn ?? []).length === 0,
    outputRoot: flags.output === undefined ? defaultOutputRoot(root) : resolvePath(flags.output),
    policy: { workspace, folder, ...(configFile !== undefined && { model: experiment.modelPath }) },
    environment: { ...environment, ...subject.env, ...subject.secrets, ...queue?.env },
    workers: flags.workers,
    queue,
    server: server && { ...server, apiKey },
    platformProblems: config.platformProblems,
  }
}

/** The config of an evaluation that has no file. */
function configOfFlags(
  { module = '', dataset, secretsFile }: Partial<EvalRunFlags>,
  server: EvaluationServer | undefined,
): EvalConfig {
  if (dataset === undefined) {
    const flag = server === undefined ? '--module' : '--server without a config'
    throw invalid(`${flag} needs --dataset: the file with the rows.`)
  }
  if (secretsFile !== undefined) {
    throw invalid('--secrets-file needs a config, which names the secrets.')
  }
  const { file, name } = splitSpec(module)
  const found = server === undefined ? moduleFile('entrypoint', file) : resolvePath(dataset)
  return {
    // The folder of `main` is a better name.
    path: /^(main|index)\./.test(path.basename(found)) ? path.dirname(found) : found,
    workspaceRoot: workingFolder(),
    experiment: {
      rollout: server?.url ?? module,
      entrypoint: module,
      modelPath: '',
      dataset: displayPath(dataset),
      branch: null,
      commitSha: null,
      rolloutFolder: path.dirname(found),
      entrypointFile: name === undefined ? found : `${found}:${name}`,
      datasetFile: resolvePath(dataset),
    },
    evaluation: {
      limit: null,
      n: 1,
      batchSize: null,
      passThreshold: 1,
      agentWorkflowTimeoutSeconds: null,
      graderTimeoutSeconds: null,
    },
    workflow: {},
    env: {},
    requiredSecrets: [],
    advanced: {},
    platformProblems: [],
  }
}

function chosenRows(
  all: readonly DatasetRow[],
  { rows, limit, where, sample, seed }: Partial<EvalRunFlags>,
  configuredLimit: number | null,
): DatasetRow[] {
  if (rows !== undefined) return selectRows(all, { rows })
  // The rows of a sample are as many as it says.
  const most = limit ?? (sample === undefined ? configuredLimit : null)
  return selectRows(all, { limit: most, where, sample, seed })
}

/** Whether flags select the rows, and not only the config. */
export function selectsRows(flags: Partial<EvalRunFlags>): boolean {
  const { rows, limit, where, sample } = flags
  return [rows, limit, where, sample].some((flag) => flag !== undefined)
}

/**
 * Loads eval functions, each named as `rewards.ts:exact`.
 *
 * @throws OsmosisError with code `invalid_config` for an invalid name, `invalid_entrypoint` when it is
 * not an eval function
 */
export async function loadScorers(specs: readonly string[]): Promise<Scorer[]> {
  const seen = new Map<string, string>()
  const scorers: Scorer[] = []
  for (const spec of specs) {
    const { file, name } = splitSpec(spec)
    if (name === undefined) {
      throw invalid(
        `--eval-fn must name a file and an export, e.g. rewards.ts:exact; got '${spec}'.`,
      )
    }
    const identity = `${resolvePath(file)}:${name}`
    const earlier = seen.get(identity)
    if (earlier !== undefined) throw twice(earlier, spec)
    seen.set(identity, spec)
    scorers.push(await loadScorer(spec, file, name))
  }
  return scorers
}

async function loadScorer(spec: string, file: string, name: string): Promise<Scorer> {
  const value = namedExport(await loadExports('eval function', file), name)
  if (typeof value !== 'function') {
    throw new OsmosisError(
      'invalid_entrypoint',
      `'${spec}' must be a function that returns a number, got ${value === null ? 'null' : typeof value}.`,
    )
  }
  if (value.length > 1 && !isRewardFunction(value)) {
    throw new OsmosisError(
      'invalid_entrypoint',
      `'${spec}' takes ${value.length} parameters. Wrap it in defineReward() to be called with (solutionStr, groundTruth, extraInfo), or let it take one object: { messages, solutionStr, groundTruth, metadata, reward }.`,
    )
  }
  return toScorer(spec, value as (...args: never[]) => unknown)
}

function twice(earlier: string, spec: string): OsmosisError {
  const same = earlier === spec ? '' : `, the first time as '${earlier}'`
  return invalid(`--eval-fn names '${spec}' twice${same}. Remove one of them.`)
}

/** A sentence about the configs of the workspace; '' where there are none. */
async function configsText(): Promise<string> {
  const workspace = await findWorkspaceRoot(resolvePath('osmosis.toml'))
  if (workspace === undefined) return ''
  const folder = path.join(workspace, 'configs', 'eval')
  const names = await readdir(folder).catch(() => [])
  const configs = names
    .filter((name) => name.endsWith('.toml'))
    .toSorted()
    .map((name) => fromWorkingFolder(path.join(folder, name)))
  const [only, ...more] = configs
  if (only === undefined) return ''
  return more.length === 0
    ? ` There is one config: osmosis eval run ${only}`
    : ` Configs here: ${configs.slice(0, 5).join(', ')}${configs.length > 5 ? ', …' : ''}`
}
