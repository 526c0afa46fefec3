import { readFile, stat } from 'node:fs/promises'
import path from 'node:path'

import { configSections, platformProblems } from '@osmosis/eval'
import { PlatformError, type JsonObject } from '@osmosis/platform'

import { runWords, type RunKind } from './run-record.ts'
import { fromHere } from '../../command/surroundings.ts'

/** A config that is ready to be submitted, and the files it means. */
export interface SubmittedConfig {
  /** Absolute. */
  readonly file: string
  /** `[experiment]`, as it is written. */
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
  /** The sections as the platform takes them; empty ones are left out. */
  readonly body: JsonObject
}

/**
 * Reads a config of a workspace as the platform will.
 *
 * @param workspace - top level of its repository
 * @throws PlatformError with code `VALIDATION`, with `issues` for what is wrong in it
 */
export async function readSubmittedConfig(
  kind: RunKind,
  given: string,
  workspace: string,
): Promise<SubmittedConfig> {
  const file = fromHere(given)
  const folder = path.join(workspace, 'configs', runWords[kind].config)
  if (path.extname(file) !== '.toml' || !isInside(folder, file)) {
    throw invalid(`${given} must be a .toml file in configs/${runWords[kind].config}/.`)
  }
  const text = await readFile(file, 'utf8').catch(() => {
    throw invalid(`${given} cannot be read.`)
  })
  const problems = platformProblems(runWords[kind].config, text)
  if (problems.length > 0) {
    throw new PlatformError('VALIDATION', `${given} would be refused.`, {
      details: { error: 'invalid config', issues: problems.map(toIssue) },
    })
  }
  // It has no problems, so it is as the rules say.
  const sections = configSections(runWords[kind].config, text) as KnownSections
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

/** What the rules of configs say of the sections that are read here. */
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
