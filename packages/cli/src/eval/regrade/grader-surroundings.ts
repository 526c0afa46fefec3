import { existsSync } from 'node:fs'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { findWorkspaceRoot, type RunReader } from '@osmosis/eval'

import { fromHere, hideSecrets, workingFolder } from '../../command/surroundings.ts'
import { readEnvironment, readSecretsFile } from '../../inputs/environment.ts'
import { splitSpec } from '../../inputs/load-module.ts'
import type { EvalRegradeFlags } from '../regrade.ts'
import type { GraderProcessOptions } from './grader-process.ts'

/**
 * What the grader of a run is loaded and run with: as in the run, its variables, secrets and time limit.
 *
 * @throws OsmosisError with code `invalid_config` for secrets without a value, and when there is no
 * grader to be found
 */
export async function graderSurroundings(
  run: RunReader,
  flags: Pick<EvalRegradeFlags, 'grader' | 'secretsFile'>,
): Promise<Omit<GraderProcessOptions, 'onFile'>> {
  const { inputs, provenance } = run.manifest
  const { code, timeouts } = inputs
  const root = await rootOf(run)
  const entrypoint = root === undefined ? null : path.join(root, code.entrypoint)
  if (flags.grader === undefined && entrypoint === null) {
    throw invalid(
      `The entrypoint of the run, ${code.entrypoint}, is not there any more. Name a grader with --grader.`,
    )
  }
  const environment = readEnvironment()
  const secrets = await secretsOf(inputs.secrets, flags.secretsFile, environment)
  hideSecrets(secrets)
  const isOfConfig = provenance.config !== null && root !== undefined
  return {
    order: {
      grader: flags.grader === undefined ? null : absolute(flags.grader),
      entrypoint,
      kind: code.kind,
      timeoutSeconds: timeouts.grader_seconds,
      artifactRoot: path.join(run.location, 'artifacts'),
    },
    folder: isOfConfig ? path.join(root, 'rollouts', code.rollout) : workingFolder(),
    env: {
      ...environment,
      ...inputs.env,
      ...secrets,
      // The login is nothing that code of the workspace needs, and there is no policy.
      OSMOSIS_TOKEN: undefined,
      OSMOSIS_CHAT_COMPLETIONS_URL: undefined,
      OSMOSIS_ROLLOUT_ID: undefined,
    },
  }
}

/** What the entrypoint of a run is relative to; undefined when it is not there. */
async function rootOf({ location, manifest }: RunReader): Promise<string | undefined> {
  const { file } = splitSpec(manifest.inputs.code.entrypoint)
  const candidates = [
    // A workspace may have been copied, with its runs.
    await findWorkspaceRoot(path.join(location, 'file')),
    manifest.provenance.root,
    await findWorkspaceRoot(fromHere('file')),
    workingFolder(),
  ]
  return candidates.find((root) => root !== undefined && existsSync(path.join(root, file)))
}

function absolute(spec: string): string {
  const { file, name } = splitSpec(spec)
  return name === undefined ? fromHere(file) : `${fromHere(file)}:${name}`
}

async function secretsOf(
  names: readonly string[],
  file: string | undefined,
  environment: NodeJS.ProcessEnv,
): Promise<Record<string, string>> {
  const written = file === undefined ? new Map<string, string>() : await readSecretsFile(file)
  const found = names.flatMap((name): [string, string][] => {
    const value = written.get(name) ?? environment[name]
    return value ? [[name, value]] : []
  })
  const secrets = Object.fromEntries(found)
  const missing = names.filter((name) => !Object.hasOwn(secrets, name))
  if (missing.length === 0) return secrets
  throw invalid(
    `The rollout needs secrets that have no value: ${missing.join(', ')}. Set them in the environment or in .env, or pass --secrets-file <file>.`,
  )
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
