import {
  LocalBackend,
  metadataProblems,
  type AnyMetadata,
  type EgressOptions,
  type Entrypoint,
  type ExecutionBackend,
  type WorkflowConfig,
} from '@osmosis/core'
import { groupSettings, isGroupGraderClass } from '@osmosis/core/backend'
import type { MetadataCheck } from '@osmosis/eval'

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
