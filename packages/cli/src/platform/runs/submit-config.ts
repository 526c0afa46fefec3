import { readFile, stat } from 'node:fs/promises'
import path from 'node:path'

import { configSections, platformProblems } from '@osmosis/eval'
import { PlatformError, type JsonObject, type PlatformClient } from '@osmosis/platform'

import { resolvePath, isInteractive } from '../../command/command-context.ts'
import { readSecretsFile } from '../../command/environment.ts'
import type { PlatformSession } from '../platform-session.ts'
import { readSecrets } from '../secret.ts'
import { runKinds, type RunKind } from './run-kinds.ts'

/** A config that is ready to be submitted, and its files. */
export interface SubmittedConfig {
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
export async function readSubmittedConfig(
  kind: RunKind,
  given: string,
  workspace: string,
): Promise<SubmittedConfig> {
  const file = resolvePath(given)
  const folder = path.join(workspace, 'configs', runKinds[kind].config)
  if (path.extname(file) !== '.toml' || !isInside(folder, file)) {
    throw invalid(`${given} must be a .toml file in configs/${runKinds[kind].config}/.`)
  }
  const text = await readFile(file, 'utf8').catch(() => {
    throw invalid(`${given} cannot be read.`)
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
    throw invalid(
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

function invalid(message: string): PlatformError {
  return new PlatformError('VALIDATION', message)
}

/**
 * Finds the values of the secrets that a run needs: in the file, in the environment, on the platform, and
 * by asking the user, in this order. `provided` are values for this run only.
 *
 * @throws PlatformError with code `INTERACTIVE_REQUIRED` that names those without a value
 */
export async function findSecrets(
  session: PlatformSession,
  client: PlatformClient,
  required: readonly string[],
  secretsFile: string | undefined,
): Promise<
  { required: readonly string[]; provided?: Readonly<Record<string, string>> } | undefined
> {
  const { output, settings } = session
  if (required.length === 0) return undefined
  const stored = await storedNames(session, client)
  const file = secretsFile === undefined ? undefined : await readSecretsFile(secretsFile)
  output.hide(...(file?.values() ?? []))
  const provided: Record<string, string> = {}
  const missing: string[] = []
  for (const name of required) {
    const value = file?.get(name) ?? settings.environment[name]
    if (value) provided[name] = value
    else if (!stored.has(name)) missing.push(name)
  }
  output.hide(...Object.values(provided))
  if (missing.length > 0 && (output.json || !isInteractive())) {
    throw new PlatformError(
      'INTERACTIVE_REQUIRED',
      `Secrets without a value: ${missing.join(', ')}. Set them with osmosis platform secret set, in the environment, or with --secrets-file.`,
      { details: { missing, flags: ['--secrets-file'] } },
    )
  }
  for (const name of missing) {
    provided[name] = await session.askHidden(`Value of ${name}:`)
  }
  return { required, ...(Object.keys(provided).length > 0 && { provided }) }
}

/** Names of secrets on the platform; empty when they cannot be listed. */
async function storedNames(
  session: PlatformSession,
  client: PlatformClient,
): Promise<ReadonlySet<unknown>> {
  try {
    const { items } = await readSecrets(session, client, { scope: 'all', all: true })
    return new Set(items.map(({ name }) => name))
  } catch (error) {
    if (error instanceof PlatformError) return new Set()
    throw error
  }
}
