import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'

import { LocalBackend, type Entrypoint, type ExecutionBackend } from '@osmosis/runtime'
import {
  metadataProblems,
  type AnyMetadata,
  type EgressOptions,
  type WorkflowConfig,
} from '@osmosis/core'
import { groupSettings, isGroupGraderClass } from '@osmosis/core/workflow'
import type { MetadataCheck } from '@osmosis/eval'
import { createWorkerPool, type WorkerEnd } from '@osmosis/workers'

import type { ProcessFlags } from '../command/flags.ts'
import { environment, workingFolder } from '../command/surroundings.ts'

/** What is said of a served workflow; plain data, because it may come from another process. */
export interface WorkflowFacts {
  /** The module, as a person would say it. */
  readonly file: string
  /** Name of the class. */
  readonly workflow: string
  /** Name of the class; null without a grader. */
  readonly grader: string | null
  /** Whether it declares the shape of its rows. */
  readonly hasSchema: boolean
  /** Whether it says itself how many of its rollouts may run at once. */
  readonly isConfigured: boolean
  /** How many attempts at a row its grader has to see together; null when it judges each alone. */
  readonly groupMinSize: number | null
}

/** What the server says of the backend, wherever that is. */
export interface BackendOptions {
  readonly artifactRoot: string | undefined
  readonly egress: EgressOptions
  /** Default: what the config of the workflow says. */
  readonly maxConcurrent?: number | undefined
}

/** A workflow that is ready to be served. */
export interface ServedWorkflow {
  readonly backend: ExecutionBackend
  readonly facts: WorkflowFacts
  readonly check: MetadataCheck
  readonly close: () => Promise<void>
}

/** A workflow whose rollouts run in this process. */
export function localWorkflow(
  { entrypoint, file }: { readonly entrypoint: Entrypoint; readonly file: string },
  options: BackendOptions,
): ServedWorkflow {
  return {
    backend: new LocalBackend({ ...entrypoint, ...options }),
    facts: factsOf(entrypoint, file),
    check: async (rows) => metadataCheckOf(entrypoint.workflowConfig, rows),
    close: async () => {},
  }
}

export function factsOf(entrypoint: Entrypoint, file: string): WorkflowFacts {
  const { workflow, workflowConfig, grader, graderConfig } = entrypoint
  return {
    file,
    workflow: workflow.name,
    grader: grader?.name ?? null,
    hasSchema: workflowConfig?.metadata !== undefined,
    isConfigured: workflowConfig !== undefined,
    groupMinSize: isGroupGraderClass(grader) ? groupSettings(graderConfig).minSize : null,
  }
}

/** For each row, what does not fit the schema of a workflow. */
export async function metadataCheckOf(
  config: WorkflowConfig | undefined,
  rows: readonly AnyMetadata[],
): Promise<(readonly string[])[]> {
  return Promise.all(rows.map(async (row) => metadataProblems(config, row)))
}

/** What a worker is started with. */
export interface WorkerArguments extends BackendOptions {
  readonly spec: string
}

/**
 * Loads a workflow in as many worker processes as the flags say, and not in this one.
 *
 * @throws what loading it in this process would throw; OsmosisError with code `invalid_config` when
 * it is an agent loop
 */
export async function workflowInWorkers(
  started: WorkerArguments,
  { workers, stallTimeout, progressTimeout, workerMemory }: ProcessFlags,
  onWorkerEnd: (end: WorkerEnd) => void,
): Promise<ServedWorkflow> {
  const source = path.join(import.meta.dirname, 'worker-child.ts')
  const backend = await createWorkerPool({
    module: existsSync(source) ? source : source.replace(/ts$/, 'js'),
    args: [JSON.stringify(started)],
    cwd: workingFolder(),
    env: environment(),
    workers: workers === 'auto' ? availableParallelism() : workers,
    stallTimeoutSeconds: stallTimeout,
    progressTimeoutSeconds: progressTimeout,
    heapMegabytes: workerMemory,
    onWorkerEnd,
  })
  return {
    backend,
    facts: backend.facts as WorkflowFacts,
    check: async (rows) => (await backend.ask(rows)) as readonly (readonly string[])[],
    close: async () => backend.close(),
  }
}

/** What is run, for people. */
export function workflowText({ workflow, file, grader, groupMinSize }: WorkflowFacts): string {
  const how = groupMinSize === null ? '' : ', which grades the attempts at a row together'
  return `${workflow} of ${file} (${grader ?? 'no grader: rollouts get no reward'}${how})`
}
