import type { ColumnNames, LocatedConfig } from '@osmosis/eval'

import { hideSecrets } from '../command/command-context.ts'
import { requiredSecrets } from '../command/environment.ts'

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
  /** Its columns that have other names. */
  readonly columns: ColumnNames
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
    columns: experiment.columns,
  }
}
