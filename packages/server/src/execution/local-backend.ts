import { homedir } from 'node:os'
import path from 'node:path'

import type {
  EgressOptions,
  AgentWorkflowClass,
  GraderClass,
  GroupGraderClass,
  OsmosisError,
} from '@osmosis/core'
import { EgressPolicy } from '@osmosis/core/http'
import { beginRolloutTrace } from '@osmosis/core/tracing'
import { isGroupGraderClass } from '@osmosis/core/workflow'
import type {
  CancelDisposition,
  BackendLoad,
  ExecutionBackend,
  ModelCallGates,
  RolloutEvent,
  RolloutRequest,
  RolloutSelector,
  RolloutState,
} from '@osmosis/protocol'

import { runGradingPhase } from './grading-phase.ts'
import { ArtifactsFolder, LiveRollout } from './live-rollout.ts'
import { LiveRollouts, type RolloutPhases } from './live-rollouts.ts'
import { RolloutGroups } from './rollout-groups.ts'
import { ConcurrencyLimiter } from './slots/concurrency-limiter.ts'
import { concurrencyLimits, hasRoom, queueDepth } from './slots/concurrency-limits.ts'
import {
  failedWorkflow,
  runWorkflowPhase,
  toFailure,
  type WorkflowResult,
} from './workflow-phase.ts'

/** Options of {@link LocalBackend}. */
export interface LocalBackendOptions<TWorkflowConfig, TGraderConfig> {
  workflow: AgentWorkflowClass<TWorkflowConfig>
  workflowConfig?: TWorkflowConfig | undefined
  grader?:
    | GraderClass<TGraderConfig, TWorkflowConfig>
    | GroupGraderClass<TGraderConfig, TWorkflowConfig>
    | undefined
  graderConfig?: TGraderConfig | undefined
  /**
   * Maximum concurrent workflows. Default: the setting of the workflow's config, where unset means
   * unlimited; 4 without a config.
   */
  maxConcurrent?: number | undefined
  /** Rollouts that may wait for a slot before {@link LocalBackend.hasCapacity} is false; default: any number. */
  maxQueueDepth?: number | undefined
  /** Where rollouts store files; default `~/.osmosis`. */
  artifactRoot?: string | undefined
  /**
   * Where model calls, and callbacks of a server with this backend, may connect to. Default: anywhere
   * that `EgressOptions` of `@osmosis/core` does not always forbid. Does not restrict tools of user code.
   */
  egress?: EgressOptions | undefined
}

/** Executes rollouts in this process, limited by its slots. */
export class LocalBackend<
  TWorkflowConfig = unknown,
  TGraderConfig = unknown,
> implements ExecutionBackend {
  /** Where rollouts store files. */
  readonly artifactRoot: string
  /** Where rollouts may connect to. */
  readonly egress: EgressOptions | undefined
  /** Whether its grader is a GroupGrader. */
  readonly gradesGroups: boolean
  readonly #workflowSlots: ConcurrencyLimiter
  readonly #maxQueueDepth: number | undefined
  readonly #workflowName: string
  readonly #rollouts = new LiveRollouts()
  readonly #phases: RolloutPhases

  /** @throws OsmosisError with code `invalid_config` */
  constructor(options: LocalBackendOptions<TWorkflowConfig, TGraderConfig>) {
    this.artifactRoot = options.artifactRoot ?? path.join(homedir(), '.osmosis')
    this.egress = options.egress
    EgressPolicy.of(options.egress)
    const { workflow, grader, egress } = options
    const workflowConfig = options.workflowConfig as TWorkflowConfig
    this.#workflowName = workflow.name
    const graderConfig = options.graderConfig as TGraderConfig
    const limits = concurrencyLimits(options)
    const workflowSlots = new ConcurrencyLimiter(limits.workflows)
    const graderSlots = new ConcurrencyLimiter(limits.graders)
    this.#workflowSlots = workflowSlots
    this.#maxQueueDepth = queueDepth(options)
    const workflowPhase = (live: LiveRollout): Promise<WorkflowResult> =>
      runWorkflowPhase(live, workflowSlots, {
        workflow,
        config: workflowConfig,
        graderConfig,
        egress,
      })
    this.gradesGroups = isGroupGraderClass(grader)
    if (isGroupGraderClass<TGraderConfig, TWorkflowConfig>(grader)) {
      const groups = new RolloutGroups({ grader, config: graderConfig, slots: graderSlots })
      this.#phases = {
        workflow: async (live) => {
          try {
            groups.begin(live)
          } catch (error) {
            return failedWorkflow(error)
          }
          return workflowPhase(live)
        },
        workflowFailed: (live, failure) => groups.failed(live, failure),
        grading: async (live, result) => groups.grade(live, result),
        // When nobody reads on, the others of the group must not wait for this rollout.
        over: (live) =>
          groups.failed(live, toFailure(new Error('The rollout ended without a result.'))),
      }
    } else {
      this.#phases = {
        workflow: workflowPhase,
        grading: (live, result) => runGradingPhase(live, result, graderSlots, grader, graderConfig),
      }
    }
  }

  /**
   * Runs and grades one rollout, see `ExecutionBackend`.
   *
   * @param signal - ends the rollout early when aborted; its reason, an OsmosisError, is what the
   * rollout fails with
   */
  execute(
    request: RolloutRequest,
    gates?: ModelCallGates,
    signal?: AbortSignal,
  ): AsyncIterable<RolloutEvent> {
    const artifacts = new ArtifactsFolder(this.artifactRoot, request.rolloutId)
    const trace = beginRolloutTrace(request, this.#workflowName)
    return this.#rollouts.run(
      new LiveRollout(request, artifacts, { gates, trace, signal }),
      this.#phases,
    )
  }

  hasCapacity(): boolean {
    return hasRoom(this.#workflowSlots, this.#maxQueueDepth)
  }

  load(): BackendLoad {
    const { maxConcurrent, queued, running } = this.#workflowSlots
    return { maxConcurrent, queued, running }
  }

  status(rolloutId: string): RolloutState {
    return this.#rollouts.status(rolloutId)
  }

  cancel(selector: RolloutSelector, reason?: OsmosisError): Map<string, CancelDisposition> {
    return this.#rollouts.cancel(selector, reason)
  }

  shutdown(): void {
    this.#rollouts.shutdown()
  }
}
