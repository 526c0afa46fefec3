import { readFile, stat } from 'node:fs/promises'
import path from 'node:path'

import { isJsonObject } from '@osmosis/core/http'
import { configSections, platformProblems } from '@osmosis/eval'

import { inspectEntrypoint } from '../../../child/entrypoint-process.ts'
import { hideKeys, resolvePath } from '../../../command/command-context.ts'
import { objectsOf, textOf, type JsonObject } from '../../client/answers.ts'
import type { PlatformClient } from '../../client/platform-client.ts'
import { PlatformError, wrongUse } from '../../client/platform-error.ts'
import {
  findGitWorkspace,
  findGithubCommit,
  git,
  type GithubAccess,
  type GitWorkspace,
} from '../../session/git-workspace.ts'
import type { PlatformSession } from '../../session/platform-session.ts'
import { findSecrets } from '../secrets.ts'
import { runKinds, type RunKind } from './run-record.ts'

/** Not documented, and a failing run costs money. */
const typeScriptNote =
  'It is not known whether the hosted platform runs TypeScript entrypoints: all that is documented is for Python. The run may fail when it starts.'

/** Starts a run on the platform, after all checks that are possible locally. */
export async function submitRun(
  session: PlatformSession,
  kind: RunKind,
  given: string,
  { secretsFile, yes }: { secretsFile?: string | undefined; yes?: true | undefined },
): Promise<void> {
  const { output, settings, signal } = session
  const { client, git: repository } = await session.scoped()
  const workspace = repository ?? (await namedWorkspace(session, client, given))
  const config = await readSubmittedConfig(kind, given, workspace.folder)
  // Loaded code may print them.
  hideKeys(...config.requiredSecrets.map((name) => settings.environment[name]))
  const loaded = await preflight(config.entrypoint, {
    folder: workspace.folder,
    environment: { ...settings.environment, ...config.env },
    signal,
  })
  const commit = await commitWarnings(workspace, config.experiment.commit_sha, {
    environment: settings.environment,
    signal,
  })
  const { requiredSecrets } = config
  const secrets = await findSecrets(session, client, requiredSecrets, secretsFile)

  output.warn('TYPESCRIPT_UNKNOWN', typeScriptNote)
  for (const warning of loaded) output.warn('PREFLIGHT', warning)
  for (const warning of commit) output.warn('GIT', warning)
  const warnings = [typeScriptNote, ...loaded, ...commit]
  const summary = describeRun(kind, config, workspace)
  const agreed = await session.confirm({ prompt: 'Submit this run?', summary, warnings }, yes)
  if (!agreed) {
    output.operation({
      status: 'cancelled',
      operation: `${kind}.submit`,
      message: 'Nothing was submitted.',
    })
    return
  }
  const body = { ...config.body, ...(secrets && { secrets }) }
  showRun(session, kind, config, await send(client, kind, body))
}

/** A config that is ready to be submitted, and its files. */
interface SubmittedConfig {
  /** Absolute. */
  readonly file: string
  /** The section `[experiment]`. */
  readonly experiment: {
    readonly rollout: string
    readonly model_path: string
    readonly dataset: string
    readonly branch?: string | undefined
    readonly commit_sha?: string | undefined
  }
  /** Absolute. */
  readonly entrypoint: string
  readonly requiredSecrets: readonly string[]
  /** `[env]`. */
  readonly env: Readonly<Record<string, string>>
  /** The sections in the form of the platform, without empty ones. */
  readonly body: JsonObject
}

/**
 * Reads a config of a workspace, and checks it by the rules of the platform.
 *
 * @param workspace - top level of its repository
 * @throws PlatformError with code `VALIDATION`, with `issues` for what is wrong in it
 */
async function readSubmittedConfig(
  kind: RunKind,
  given: string,
  workspace: string,
): Promise<SubmittedConfig> {
  const file = resolvePath(given)
  const folder = path.join(workspace, 'configs', runKinds[kind].config)
  if (path.extname(file) !== '.toml' || !isInside(folder, file)) {
    throw wrongUse(`${given} must be a .toml file in configs/${runKinds[kind].config}/.`)
  }
  const text = await readFile(file, 'utf8').catch(() => {
    throw wrongUse(`${given} cannot be read.`)
  })
  const problems = platformProblems(runKinds[kind].config, text)
  if (problems.length > 0) {
    throw new PlatformError('VALIDATION', `The platform would refuse ${given}.`, {
      details: { error: 'invalid config', issues: problems.map(toIssue) },
    })
  }
  // Without problems it has the known form.
  const sections = configSections(runKinds[kind].config, text) as KnownSections
  const { experiment, env, secrets, ...own } = sections
  const rollout = path.join(workspace, 'rollouts', experiment.rollout)
  const entrypoint = path.resolve(rollout, experiment.entrypoint)
  if (!isInside(rollout, entrypoint) || !(await stat(entrypoint).catch(() => {}))?.isFile()) {
    throw wrongUse(
      `experiment.entrypoint must be a file in rollouts/${experiment.rollout}/, got ${experiment.entrypoint}.`,
    )
  }
  const bodies = Object.entries({ ...own, env })
    .filter(([, section]) => Object.keys(section).length > 0)
    .map(([name, section]) => [`${name}_config`, section] as const)
  return {
    file,
    experiment,
    entrypoint,
    requiredSecrets: secrets.required ?? [],
    env,
    body: { experiment_config: experiment, ...Object.fromEntries(bodies) },
  }
}

/** The sections that are read here. */
interface KnownSections {
  readonly experiment: SubmittedConfig['experiment'] & { readonly entrypoint: string }
  readonly env: Readonly<Record<string, string>>
  readonly secrets: { readonly required?: readonly string[] | undefined }
  readonly [own: string]: object
}

function toIssue(problem: string): JsonObject {
  const [, key, message] = /^([\w.[\]]+): (.*)$/s.exec(problem) ?? []
  return key === undefined ? { key: '', message: problem } : { key, message }
}

function isInside(folder: string, file: string): boolean {
  const way = path.relative(folder, file)
  return way !== '' && !path.isAbsolute(way) && !/^\.\.(?:[/\\]|$)/.test(way)
}

function describeRun(
  kind: RunKind,
  { file, experiment, requiredSecrets }: SubmittedConfig,
  { folder, identity }: GitWorkspace,
): string {
  const { rollout, model_path: model, dataset, branch, commit_sha: commit } = experiment
  return [
    `${kind === 'eval' ? 'Evaluates' : 'Trains'} ${model} with rollouts/${rollout} on ${dataset}`,
    `from ${identity} (${commit ?? branch ?? 'its default branch'}), as in ${path.relative(folder, file)}`,
    ...(requiredSecrets.length > 0 ? [`with the secrets ${requiredSecrets.join(', ')}`] : []),
  ].join('\n')
}

/** Sent once: after a timeout the run may exist, and a second run would cost money, too. */
async function send(client: PlatformClient, kind: RunKind, body: JsonObject): Promise<JsonObject> {
  try {
    return await client.request([runKinds[kind].route], { method: 'POST', body })
  } catch (error) {
    if (!(error instanceof PlatformError)) throw error
    if (error.status === undefined) {
      throw new PlatformError(
        'PLATFORM_ERROR',
        `${error.message}. The run may have been submitted: check with osmosis platform ${kind} list before you submit it again.`,
        { cause: error },
      )
    }
    const [, names] = /Secret\(s\) not found: ([\w, ]+)/.exec(error.message) ?? []
    if (names === undefined) throw error
    const hints = names.split(/,\s*/).map((name) => `osmosis platform secret set ${name}`)
    throw new PlatformError(error.platformCode, `${error.message}\nSet them: ${hints.join('; ')}`, {
      details: { ...error.details, hints },
      status: error.status,
    })
  }
}

function showRun(
  session: PlatformSession,
  kind: RunKind,
  { experiment, body }: SubmittedConfig,
  run: JsonObject,
): void {
  const { id, name, status, created_at: created } = run
  const url = textOf(run['platform_url'])
  session.output.operation({
    status: 'success',
    operation: `${kind}.submit`,
    resource: {
      id,
      name,
      status,
      model_name: experiment.model_path,
      dataset_name: experiment.dataset,
      created_at: created,
      ...(url !== undefined && { url }),
      ...session.output.place,
      config: body,
    },
    message: `Submitted ${String(name)}.${url === undefined ? '' : `\nView: ${url}`}`,
    nextSteps: [
      { action: `${kind}_info`, command: `osmosis platform ${kind} info ${String(name)}` },
      { action: `${kind}_list`, command: `osmosis platform ${kind} list` },
      ...(url === undefined ? [] : [{ action: 'open_url', url }]),
    ],
  })
}

/** With `--workspace`, the repository of the config must be the one that the platform has for it. */
async function namedWorkspace(
  { signal, workspaceName: workspace }: PlatformSession,
  client: PlatformClient,
  given: string,
): Promise<GitWorkspace> {
  signal.throwIfAborted()
  if (!path.isAbsolute(given)) {
    throw wrongUse('With --workspace the config needs its absolute path.')
  }
  const found = await findGitWorkspace(path.dirname(given))
  const { workspaces } = await client.request(['workspaces'])
  const named = objectsOf(workspaces).find(({ name }) => name === workspace)
  const repository = isJsonObject(named?.['connected_repo'])
    ? textOf(named['connected_repo']['repo_full_name'])
    : undefined
  if (repository?.toLowerCase() === found.identity) return found
  throw new PlatformError(
    'VALIDATION',
    `The workspace ${workspace} is not connected to ${found.identity}, where the config is.`,
    { details: { workspace, repository: repository ?? null }, status: 200 },
  )
}

/**
 * Warnings about the commit that the platform will check out. Local changes are worth a warning, but never
 * an error.
 *
 * @throws PlatformError with code `VALIDATION` for a pinned commit that is not on GitHub
 */
async function commitWarnings(
  workspace: GitWorkspace,
  pinned: string | undefined,
  access: GithubAccess,
): Promise<string[]> {
  const warnings = await workWarnings(workspace.folder)
  if (pinned === undefined) return warnings
  const isHere = (await git(workspace.folder, 'cat-file', '-e', `${pinned}^{commit}`)) !== undefined
  const remote = await findGithubCommit(workspace.identity, pinned, access)
  if (remote === 'absent') {
    throw wrongUse(
      `The commit ${pinned} is not on GitHub (${workspace.identity}): ${isHere ? 'push it' : 'check commit_sha'}.`,
    )
  }
  if (remote === 'unknown' && !isHere) {
    warnings.push(`The commit ${pinned} is not in this clone, and GitHub could not be queried.`)
  }
  return warnings
}

async function workWarnings(folder: string): Promise<string[]> {
  const warnings: string[] = []
  const changed = await git(folder, 'status', '--porcelain')
  if (changed)
    warnings.push('There are changes that are not committed: the platform will not see them.')
  const unpushed = await git(folder, 'rev-list', '--count', '@{upstream}..HEAD')
  if (unpushed === undefined)
    warnings.push('The branch has no upstream: the platform may not see it.')
  else if (unpushed !== '0') {
    warnings.push(`Commits that are not pushed: ${unpushed}. The platform will not see them.`)
  }
  return warnings
}

/**
 * Loads an entrypoint in a separate process, and resolves with warnings about it.
 *
 * @param file - absolute
 * @throws PlatformError with code `VALIDATION` when it cannot be loaded, or lacks its workflow or grader
 */
async function preflight(
  file: string,
  { folder, ...options }: Parameters<typeof inspectEntrypoint>[1],
): Promise<string[]> {
  const name = path.relative(folder, file)
  const failed = (why: string): PlatformError => wrongUse(`${name}: preflight failed: ${why}`)
  const report = await inspectEntrypoint(file, { folder, ...options })
  if (report.kind === 'failed') {
    if (!report.isDependency) throw failed(report.message)
    return [`${name} was not checked: it needs a package that is not installed here.`]
  }
  if (report.kind === 'agent-loop') {
    if (report.problem !== null) throw failed(report.problem)
    return []
  }
  if (report.missing.includes('grader')) {
    throw failed('it exports no grader, which runs on the platform need')
  }
  return report.missing.map((part) => `${name} exports no ${part}: the platform uses defaults.`)
}
