import { readdir } from 'node:fs/promises'
import path from 'node:path'

import {
  defaultOutputRoot,
  readDataset,
  readEvalConfig,
  readWorkspaceConfig,
  selectRows,
  type ColumnNames,
  type DatasetRow,
  type EvalConfig,
  findWorkspaceRoot,
} from '@osmosis/eval'

import {
  resolvePath,
  displayPath,
  protectData,
  workingFolder,
  fromWorkingFolder,
} from '../../command/command-context.ts'
import { invalid } from '../../command/wrong-use.ts'
import { currentWorkspace, type PolicyDefaults } from '../../inputs/choose-policy.ts'
import { moduleFile, splitSpec } from '../../inputs/load-module.ts'
import { configuredSubject, type RunSubject } from '../../inputs/run-subject.ts'
import { remotePlace, type RemotePlace } from '../models/remote-servers.ts'
import type { EvalRunFlags } from '../run.ts'

/** The plan of an evaluation: what flags and a config decide before anything is served. */
export interface EvalRunPlan extends RunSubject, RemotePlace {
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
 * @param columns - the columns of a dataset without a config that have other names
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint` or `invalid_dataset`
 */
export async function planEvaluation(
  configFile: string | undefined,
  flags: Partial<EvalRunFlags>,
  environment: NodeJS.ProcessEnv,
  columns: ColumnNames = {},
): Promise<EvalRunPlan> {
  const isNamed = configFile !== undefined || flags.module !== undefined
  const isNamedTwice = configFile !== undefined && flags.module !== undefined
  const isServed = flags.server === undefined
  if (isNamedTwice || (!isNamed && isServed)) {
    throw invalid(
      `Name what to evaluate: a config, an entrypoint as -m <file>[:<export>], or a running server as --server <url>.${isNamedTwice ? '' : await configsText()}`,
    )
  }
  const config =
    configFile === undefined
      ? configOfFlags(flags, columns)
      : await readEvalConfig(
          displayPath(configFile),
          flags.dataset === undefined ? {} : { datasetFile: resolvePath(flags.dataset) },
        )
  const { experiment, evaluation, workspaceRoot: root } = config
  const allRows = await readDataset(
    configFile === undefined ? experiment.dataset : experiment.datasetFile,
    { columns: experiment.columns },
  )
  const rows = chosenRows(allRows, flags, evaluation.limit)
  protectData(allRows)
  const subject = await configuredSubject(config, flags, isServed ? environment : undefined)
  const workspace =
    configFile === undefined ? await currentWorkspace() : await readWorkspaceConfig(root)
  // After the rows were read: they may contain the text of the key.
  const { server, queue } = remotePlace(flags, workspace.queue, environment)
  const workflow = { ...subject.workflow, ...flags.set }
  if (server !== undefined && Object.keys(workflow).length > 0) {
    throw invalid(
      '[workflow] of the config and --set do not reach the workflow behind a running server: remove them here, and pass --set to osmosis serve.',
    )
  }
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
    rows,
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
    server,
    platformProblems: config.platformProblems,
  }
}

/** The config of an evaluation that has no file. */
function configOfFlags(
  { module = '', dataset, secretsFile, server }: Partial<EvalRunFlags>,
  columns: ColumnNames,
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
      rollout: server ?? module,
      entrypoint: module,
      modelPath: '',
      dataset: displayPath(dataset),
      branch: null,
      commitSha: null,
      rolloutFolder: path.dirname(found),
      entrypointFile: name === undefined ? found : `${found}:${name}`,
      datasetFile: resolvePath(dataset),
      columns,
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
  if (rows !== undefined) {
    if (selectsRows({ limit, where, sample })) {
      throw invalid('--rows selects the rows: omit --limit, --where and --sample.')
    }
    return selectRows(all, { rows })
  }
  // The rows of a sample are as many as it says.
  const most = limit ?? (sample === undefined ? configuredLimit : null)
  return selectRows(all, { limit: most, where, sample, seed })
}

/** Whether flags select the rows, and not only the config. */
export function selectsRows({
  rows,
  limit,
  where,
  sample,
}: { readonly [Flag in 'rows' | 'limit' | 'where' | 'sample']?: unknown }): boolean {
  return [rows, limit, where, sample].some((flag) => flag !== undefined)
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
