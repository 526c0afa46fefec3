import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { TomlError } from 'smol-toml'

import { type ConfigFiles, findConfigFiles, rolloutFolder } from './config-files.ts'
import type { CheckedSections } from './config-sections.ts'
import type { EvalConfig, PolicyConfig } from './eval-config.ts'
import { parseEvalConfig } from './parse-eval-config.ts'
import { findWorkspaceRoot } from './workspace-files.ts'

/** Options of {@link readEvalConfig}. */
export interface ReadEvalConfigOptions {
  /** Taken instead of the config's dataset. Relative to the working folder. */
  readonly datasetFile?: string
}

/**
 * Reads an eval config (TOML) that lies in an Osmosis workspace, usually in `configs/eval/`, and
 * finds the files it names. Timeouts that are left out are unbounded.
 *
 * `[policy]` is for local runs only: `module = "policies/arithmetic.ts"`, relative to the
 * workspace, or `base_url` with `model` and `api_key_env` for an OpenAI-compatible endpoint.
 *
 * @throws OsmosisError with code `invalid_config`; the message lists all problems, a line each
 */
export async function readEvalConfig(
  file: string,
  options: ReadEvalConfigOptions = {},
): Promise<EvalConfig> {
  const problems: string[] = []
  const path = resolve(file)
  const sections = parseText(file, await readText(file), problems)
  const workspaceRoot = await findWorkspaceRoot(path)
  if (workspaceRoot === undefined) {
    problems.push('not in an Osmosis workspace: no folder above has both rollouts/ and data/')
    throw invalidConfig(file, problems)
  }
  const files = await findConfigFiles(workspaceRoot, sections, { ...options, problems })
  if (problems.length > 0) throw invalidConfig(file, problems)
  return toEvalConfig({ path, workspaceRoot }, sections, files)
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    const message = `Cannot read the eval config ${file}: ${errorMessage(cause)}`
    throw new OsmosisError('invalid_config', message, { cause })
  }
}

function parseText(file: string, text: string, problems: string[]): CheckedSections {
  try {
    return parseEvalConfig(text, problems)
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const problem = `line ${error.line}, column ${error.column}: ${error.message.trim()}`
    throw invalidConfig(file, [problem], error)
  }
}

function invalidConfig(file: string, problems: readonly string[], cause?: unknown): OsmosisError {
  const lines = problems.map((problem) => `- ${problem}`)
  const message = [`Invalid eval config ${file}:`, ...lines].join('\n')
  return new OsmosisError('invalid_config', message, cause === undefined ? {} : { cause })
}

function toEvalConfig(
  place: Pick<EvalConfig, 'path' | 'workspaceRoot'>,
  sections: CheckedSections,
  files: ConfigFiles,
): EvalConfig {
  const { experiment, evaluation, env = {}, secrets, advanced = {} } = sections
  if (!experiment || !evaluation || !files.entrypoint || !files.dataset) {
    throw new TypeError('A config without problems has all of its sections and files.')
  }
  return {
    ...place,
    experiment: {
      rollout: experiment.rollout,
      entrypoint: experiment.entrypoint,
      modelPath: experiment.model_path,
      dataset: experiment.dataset,
      branch: experiment.branch ?? null,
      commitSha: experiment.commit_sha ?? null,
      rolloutFolder: rolloutFolder(place.workspaceRoot, experiment.rollout),
      entrypointFile: files.entrypoint,
      datasetFile: files.dataset,
    },
    evaluation: {
      limit: evaluation.limit !== undefined && evaluation.limit > 0 ? evaluation.limit : null,
      n: evaluation.n,
      batchSize: evaluation.batch_size ?? null,
      passThreshold: evaluation.pass_threshold,
      agentWorkflowTimeoutSeconds: evaluation.agent_workflow_timeout_s ?? null,
      graderTimeoutSeconds: evaluation.grader_timeout_s ?? null,
    },
    env,
    requiredSecrets: secrets?.required ?? [],
    policy: toPolicyConfig(sections.policy, experiment.model_path, files.policyModule),
    advanced,
  }
}

function toPolicyConfig(
  policy: CheckedSections['policy'],
  modelPath: string,
  file: string | undefined,
): PolicyConfig | null {
  if (policy?.module !== undefined && file !== undefined) {
    return { kind: 'module', module: policy.module, file }
  }
  if (policy?.base_url === undefined) return null
  return {
    kind: 'endpoint',
    baseUrl: policy.base_url,
    model: policy.model ?? modelPath,
    apiKeyEnv: policy.api_key_env ?? null,
  }
}
