import { availableParallelism } from 'node:os'

import { rowProblems, type RowSchemas } from '@osmosis/core'
import { groupSettings, isGroupGraderClass, overrideConfig } from '@osmosis/core/workflow'
import type { RowCheck } from '@osmosis/eval'
import type { ExecutionBackend } from '@osmosis/protocol'
import { readServerEnvironment, type Logger } from '@osmosis/server'
import { createWorkerPool, moduleIn } from '@osmosis/server/child'
import { LocalBackend, withStages, type Entrypoint } from '@osmosis/server/execution'

import { displayPath, environment, redaction, workingFolder } from '../command/command-context.ts'
import type { LoadedWorkflow } from '../inputs/load-entrypoint.ts'
import type { RunnerPlan } from './runner-plan.ts'

/** What an entrypoint exports, which determines the protocol of its server. */
export type EntrypointKind = 'workflow' | 'agent-loop'

/** A server of an entrypoint that listens. */
export interface ServedEntrypoint {
  readonly url: string
  /** Plain data about the entrypoint. */
  readonly facts: EntrypointFacts
  readonly check: RowCheck
  /** Resolves when it is closed, by `close`, a signal or the end signal of the command. */
  readonly closed: Promise<void>
  readonly close: () => Promise<void>
}

/** Facts that decide how a served entrypoint is driven. */
export interface EntrypointFacts {
  readonly kind: EntrypointKind
  /** Whether it declares a schema of its rows. */
  readonly hasSchema: boolean
  /** Whether its config sets the number of concurrent rollouts. */
  readonly isConfigured: boolean
  /** Whether its rollouts get rewards. */
  readonly hasGrader: boolean
  /** Whether its config limits the model calls of a rollout. */
  readonly limitsCalls: boolean
  /** Minimum number of attempts at a row that its grader grades together; null when it grades each alone. */
  readonly groupMinSize: number | null
}

/** Facts about a workflow; plain data, because a worker process may send it. */
export interface WorkflowFacts extends EntrypointFacts {
  /** Path of the module, for messages. */
  readonly file: string
  /** Name of the class. */
  readonly workflow: string
  /** Name of the class; null without a grader. */
  readonly grader: string | null
}

/** Options of the backend, in this process or in workers. */
export type BackendOptions = Pick<
  RunnerPlan,
  'egress' | 'set' | 'maxConcurrent' | 'defaultConcurrency'
> & { readonly artifactRoot: string | undefined }

/** A workflow that is ready to be served. */
export interface ServedWorkflow {
  readonly backend: ExecutionBackend
  readonly facts: WorkflowFacts
  readonly check: RowCheck
  readonly close: () => Promise<void>
}

/** A workflow whose rollouts run in this process. */
export function localWorkflow(
  { entrypoint, file }: LoadedWorkflow,
  options: BackendOptions,
): ServedWorkflow {
  const configured = backendOptions(entrypoint, options)
  return {
    backend: new LocalBackend(configured),
    facts: factsOf(configured, file),
    check: rowCheckOf(entrypoint),
    close: async () => {},
  }
}

/**
 * Opens the workflow of a plan in this process, or in processes of its own, and records its rollouts where the plan
 * names a folder, as a training that `osmosis eval view` opens. The caller closes it.
 *
 * @param loaded - for this process; undefined where others load it
 * @param trainer - named in the record
 * @throws the errors of loading it; OsmosisError with code `run_locked` when another process records there, `damaged_run`,
 * `storage_error`
 */
export async function openWorkflow(
  plan: RunnerPlan,
  loaded: LoadedWorkflow | undefined,
  { trainer, logger }: { readonly trainer: string; readonly logger: () => Logger },
): Promise<ServedWorkflow> {
  const { artifactRoot } = readServerEnvironment(environment())
  const { egress, set, maxConcurrent, defaultConcurrency } = plan
  const options = { artifactRoot, egress, set, maxConcurrent, defaultConcurrency }
  const served =
    loaded === undefined
      ? await workflowInWorkers(plan, options, logger)
      : localWorkflow(loaded, options)
  const { record: folder } = plan
  if (folder === undefined) return served
  // Loaded here: servers and workers that record nothing start without it.
  const { WorkerRecord } = await import('@osmosis/eval')
  const record = await WorkerRecord.open({
    folder: displayPath(folder),
    trainer,
    rollout: served.facts.workflow,
    redact: (data) => redaction().data(data),
    onProblem: (problem) => logger().error({ record: folder }, problem),
  }).catch(async (error: unknown) => {
    await served.close()
    throw error
  })
  return {
    ...served,
    backend: withStages(served.backend, record.recorded),
    close: async () => {
      try {
        await served.close()
      } finally {
        await record.close()
      }
    },
  }
}

/**
 * The options of a backend for an entrypoint.
 *
 * @throws OsmosisError with code `invalid_config` for fields to set that its config does not have
 */
export function backendOptions(
  entrypoint: Entrypoint,
  { defaultConcurrency, set, ...options }: BackendOptions,
): Entrypoint & Omit<BackendOptions, 'set' | 'defaultConcurrency'> {
  const ofWorkflow = entrypoint.workflowConfig === undefined ? defaultConcurrency : undefined
  const workflowConfig = overrideConfig(entrypoint.workflowConfig, set)
  const maxConcurrent = options.maxConcurrent ?? ofWorkflow
  return { ...entrypoint, workflowConfig, ...options, maxConcurrent }
}

export function factsOf(entrypoint: Entrypoint, file: string): WorkflowFacts {
  const { workflow, workflowConfig, grader, graderConfig } = entrypoint
  return {
    kind: 'workflow',
    file,
    workflow: workflow.name,
    grader: grader?.name ?? null,
    hasGrader: grader !== undefined,
    hasSchema: hasSchema(entrypoint),
    isConfigured: workflowConfig !== undefined,
    limitsCalls: workflowConfig?.rolloutLimits?.modelCalls !== undefined,
    groupMinSize: isGroupGraderClass(grader) ? groupSettings(graderConfig).minSize : null,
  }
}

/** Checks rows by the schemas that an entrypoint declares. */
export function rowCheckOf(schemas: RowSchemas): RowCheck {
  return async (rows) => Promise.all(rows.map(async (row) => rowProblems(schemas, row)))
}

export function hasSchema({ workflowConfig, graderConfig }: RowSchemas): boolean {
  return workflowConfig?.metadata !== undefined || graderConfig?.label !== undefined
}

/** Arguments of a worker process. */
export interface WorkerArguments extends BackendOptions {
  readonly spec: string
}

/**
 * Loads a workflow in worker processes, and not in this one.
 *
 * @throws the errors of loading it; OsmosisError with code `invalid_config` for an agent loop
 */
async function workflowInWorkers(
  { entrypoint: spec, processes }: RunnerPlan,
  options: BackendOptions,
  logger: () => Logger,
): Promise<ServedWorkflow> {
  const { count = 'auto', ...limits } = processes ?? {}
  const backend = await createWorkerPool({
    module: moduleIn(import.meta.dirname, 'worker-child'),
    args: [JSON.stringify({ spec, ...options } satisfies WorkerArguments)],
    cwd: workingFolder(),
    env: environment(),
    workers: count === 'auto' ? availableParallelism() : count,
    ...limits,
    onWorkerEnd: ({ pid, what, rollouts, restartMs }) =>
      logger().warn({ pid, rollouts, restart_ms: restartMs }, `a worker process ended: ${what}`),
  })
  return {
    backend,
    facts: backend.facts as WorkflowFacts,
    check: async (rows) => (await backend.ask(rows)) as readonly (readonly string[])[],
    close: async () => backend.close(),
  }
}

/** Human-readable description of a workflow. */
export function workflowText({ workflow, file, grader, groupMinSize }: WorkflowFacts): string {
  const how = groupMinSize === null ? '' : ', which grades the attempts at a row together'
  return `${workflow} of ${file} (${grader ?? 'no grader: rollouts get no reward'}${how})`
}
