import path from 'node:path'

import type { LocatedConfig } from '@osmosis/eval'
import type { RunInputs } from '@osmosis/eval/analysis'

import { hideSecrets } from '../command/command-context.ts'
import { requiredSecrets } from '../command/environment.ts'
import { digestOf, sourcesIn, withImports } from './source-digest.ts'

/** What an evaluation or a training runs: the code, on which rows, and with which variables. */
export interface RunSubject {
  /** Name of what runs, for output. */
  readonly rollout: string
  /** The argument of `osmosis serve`; absolute. With a running server, its URL. */
  readonly entrypoint: string
  /** Working folder of its process. */
  readonly folder: string
  /** Base of the file names in the inputs of a run. */
  readonly root: string
  /** Folder of its sources; null where nothing is known of them, as behind a running server. */
  readonly sourceFolder: string | null
  /** Fields of the workflow's config that have other values. */
  readonly workflow: Readonly<Record<string, unknown>>
  /** Added to the environment of that process. */
  readonly env: Readonly<Record<string, string>>
  /** Added to the environment of that process; never printed or stored. */
  readonly secrets: Readonly<Record<string, string>>
  /** As in the config or the flag. */
  readonly dataset: string
  readonly datasetFile: string
  /** Seconds; null is unbounded. */
  readonly agentTimeoutSeconds: number | null
  /** Seconds; null is unbounded. */
  readonly graderTimeoutSeconds: number | null
}

/**
 * What a config says about what runs, with the flags that come before it.
 *
 * @param environment - the source of the secrets; undefined when no process here gets them
 * @throws OsmosisError with code `invalid_config` for secrets without a value
 */
export async function configuredSubject(
  { experiment, requiredSecrets: names, ...config }: LocatedConfig,
  flags: { readonly dataset?: string | undefined; readonly secretsFile?: string | undefined },
  environment: NodeJS.ProcessEnv | undefined,
): Promise<Omit<RunSubject, 'agentTimeoutSeconds' | 'graderTimeoutSeconds'>> {
  const secrets = environment ? await requiredSecrets(names, flags.secretsFile, environment) : {}
  hideSecrets(secrets)
  return {
    rollout: experiment.rollout,
    entrypoint: experiment.entrypointFile,
    folder: experiment.rolloutFolder,
    root: config.workspaceRoot,
    sourceFolder: experiment.rolloutFolder,
    workflow: config.workflow,
    env: config.env,
    secrets,
    dataset: flags.dataset ?? experiment.dataset,
    datasetFile: experiment.datasetFile,
  }
}

/** What decides the outcome of a run, but for what only the served entrypoint knows: its kind. */
export type KnownInputs = Omit<RunInputs, 'code'> & {
  readonly code: Omit<RunInputs['code'], 'kind'>
}

/** What decides the outcome of a run besides what runs. */
interface FurtherInputs {
  readonly model: RunInputs['model']
  /** Names of eval functions. */
  readonly scorers: readonly string[]
  /** Files of code besides the sources of what runs. */
  readonly files: readonly string[]
  readonly maxTurns: number | null
  /** Absolute folder of output, which is no source. */
  readonly written: string
}

/** Finds out what decides the outcome of a run. */
export async function findInputs(
  subject: RunSubject,
  { model, scorers, files, maxTurns, written }: FurtherInputs,
): Promise<KnownInputs> {
  const { sourceFolder, entrypoint, workflow } = subject
  const sources = sourceFolder === null ? [] : await sourcesIn(sourceFolder, new Set([written]))
  return {
    model,
    dataset: { name: subject.dataset, sha256: await digestOf([subject.datasetFile]) },
    code: {
      rollout: subject.rollout,
      entrypoint: sourceFolder === null ? entrypoint : path.relative(subject.root, entrypoint),
      sha256: await digestOf(await withImports([...sources, ...files])),
      scorers,
    },
    ...(Object.keys(workflow).length === 0 ? {} : { workflow }),
    env: subject.env,
    secrets: Object.keys(subject.secrets).toSorted(),
    timeouts: {
      agent_seconds: subject.agentTimeoutSeconds,
      grader_seconds: subject.graderTimeoutSeconds,
      max_turns: maxTurns,
    },
  }
}
