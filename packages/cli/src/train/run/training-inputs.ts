import path from 'node:path'

import type { RunInputs, RunManifest } from '@osmosis/eval/analysis'

import { gitState, packageVersion } from '../../inputs/provenance.ts'
import { digestOf, sourcesIn, withImports } from '../../inputs/source-digest.ts'
import type { EntrypointKind } from '../../serve/server-channel.ts'
import type { TrainingPlan } from './training-plan.ts'

/** What decides the rollouts of a training, for the manifests of its runs; the loop fills in the model. */
export async function trainingInputs(
  { config, sampling, secrets, folder }: TrainingPlan,
  kind: EntrypointKind,
): Promise<{ readonly inputs: RunInputs; readonly provenance: RunManifest['provenance'] }> {
  const { experiment, training, workspaceRoot, workflow, env } = config
  const sources = await sourcesIn(experiment.rolloutFolder, new Set([path.dirname(folder)]))
  return {
    inputs: {
      model: { name: '', base_url: null, params: sampling },
      dataset: { name: experiment.dataset, sha256: await digestOf([experiment.datasetFile]) },
      code: {
        rollout: experiment.rollout,
        kind,
        entrypoint: path.relative(workspaceRoot, experiment.entrypointFile),
        sha256: await digestOf(await withImports(sources)),
        scorers: [],
      },
      ...(Object.keys(workflow).length === 0 ? {} : { workflow }),
      env,
      secrets: Object.keys(secrets).toSorted(),
      timeouts: {
        agent_seconds: training.agent_workflow_timeout_s ?? null,
        grader_seconds: training.grader_timeout_s ?? null,
        max_turns: null,
      },
    },
    provenance: {
      sdk_version: packageVersion(),
      node_version: process.version,
      config: null,
      root: workspaceRoot,
      git: await gitState(workspaceRoot),
    },
  }
}
