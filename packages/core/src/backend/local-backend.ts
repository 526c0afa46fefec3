import { homedir } from 'node:os'
import path from 'node:path'

import { isOsmosisError, OsmosisError } from '../errors.ts'
import { RolloutMemory } from '../http/rollout-memory.ts'
import type { CancelDisposition } from '../wire/rollout-protocol.ts'
import type { AgentWorkflowClass } from '../workflow/agent-workflow.ts'
import type { BaseConfig } from '../workflow/config.ts'
import type { GraderClass } from '../workflow/grader.ts'
import { ArtifactsFolder } from './artifacts-folder.ts'
import { ConcurrencyLimiter } from './concurrency-limiter.ts'
import type {
  BackendLoad,
  ExecutionBackend,
  GradingOutcome,
  RolloutObserver,
  RolloutRequest,
  RolloutSelector,
  RolloutState,
} from './execution-backend.ts'
import { runGradingPhase } from './grading-phase.ts'
import { LiveRollout } from './live-rollout.ts'
import { runWorkflowPhase } from './workflow-phase.ts'

/** Options of {@link LocalBackend}. */
export interface LocalBackendOptions<TWorkflowConfig, TGraderConfig> {
  workflow: AgentWorkflowClass<TWorkflowConfig>
  workflowConfig?: TWorkflowConfig | undefined
  grader?: GraderClass<TGraderConfig, TWorkflowConfig> | undefined
  graderConfig?: TGraderConfig | undefined
  /**
   * Workflows at the same time. Default: what the workflow's config says, where unset means
   * unlimited; 4 without a config.
   */
  maxConcurrent?: number | undefined
  /** Rollouts that may wait for a slot before {@link LocalBackend.hasCapacity} is false; default: any number. */
  maxQueueDepth?: number | undefined
  /** Where rollouts keep files; default `~/.osmosis`. */
  artifactRoot?: string | undefined
}

const defaultMaxConcurrent = 4

/** Executes rollouts in this process, as many at a time as it has slots. */
export class LocalBackend<
  TWorkflowConfig = unknown,
  TGraderConfig = unknown,
> implements ExecutionBackend {
  /** Where rollouts keep files. */
  readonly artifactRoot: string
  readonly #options: LocalBackendOptions<TWorkflowConfig, TGraderConfig>
  readonly #workflowSlots: ConcurrencyLimiter
  readonly #graderSlots: ConcurrencyLimiter
  readonly #live = new Map<string, LiveRollout>()
  readonly #finished = new RolloutMemory<RolloutState>()

  /** @throws OsmosisError with code `invalid_config` */
  constructor(options: LocalBackendOptions<TWorkflowConfig, TGraderConfig>) {
    this.#options = options
    this.artifactRoot = options.artifactRoot ?? path.join(homedir(), '.osmosis')
    const configured = concurrencyOf(options.workflowConfig)
    this.#workflowSlots = new ConcurrencyLimiter(
      options.maxConcurrent === undefined
        ? configured
        : wholeNumber('maxConcurrent', options.maxConcurrent),
    )
    this.#graderSlots = new ConcurrencyLimiter(
      options.graderConfig === undefined ? null : concurrencyOf(options.graderConfig),
    )
    if (options.maxQueueDepth !== undefined) wholeNumber('maxQueueDepth', options.maxQueueDepth)
  }

  async execute(request: RolloutRequest, observer: RolloutObserver): Promise<void> {
    const { rolloutId } = request
    const artifacts = new ArtifactsFolder(this.artifactRoot, rolloutId)
    const live = new LiveRollout(request, artifacts, observer)
    this.#live.set(rolloutId, live)

    const { workflow, workflowConfig, grader, graderConfig } = this.#options
    const { outcome, samples, unasked } = await runWorkflowPhase(
      live,
      this.#workflowSlots,
      workflow,
      workflowConfig as TWorkflowConfig,
    )
    const { failure } = outcome
    if (failure) this.#finish(live, { status: 'failure', failure, samples: new Map() })
    else if (!request.grade) this.#finish(live, { status: 'success', failure, samples })
    else live.advance('grading')

    await observer.workflowFinished(outcome, samples)
    if (!request.grade) return
    const grading: GradingOutcome = failure
      ? { status: 'failure', failure, samples: new Map() }
      : await runGradingPhase(
          live,
          { samples, unasked },
          this.#graderSlots,
          grader,
          graderConfig as TGraderConfig,
        )
    if (!failure) this.#finish(live, grading)
    await observer.gradingFinished(grading)
  }

  hasCapacity(): boolean {
    const { maxQueueDepth } = this.#options
    const { maxConcurrent, running, queued } = this.#workflowSlots
    if (maxQueueDepth === undefined || maxConcurrent === null) return true
    return running < maxConcurrent || queued < maxQueueDepth
  }

  load(): BackendLoad {
    const { maxConcurrent, queued, running } = this.#workflowSlots
    return { maxConcurrent, queued, running }
  }

  status(rolloutId: string): RolloutState {
    const live = this.#live.get(rolloutId)
    if (live) return { status: live.status, reward: null, errorMessage: null }
    return this.#finished.get(rolloutId) ?? { status: 'unknown', reward: null, errorMessage: null }
  }

  cancel(selector: RolloutSelector): Map<string, CancelDisposition> {
    const dispositions = new Map<string, CancelDisposition>()
    for (const id of this.#select(selector)) {
      const live = this.#live.get(id)
      if (live === undefined || live.ending.aborted) {
        dispositions.set(id, 'not_found')
        continue
      }
      dispositions.set(id, live.status === 'queued' ? 'cancelled_queued' : 'cancelled_running')
      live.end(new OsmosisError('cancelled', 'cancelled'))
    }
    return dispositions
  }

  shutdown(): void {
    for (const live of this.#live.values()) {
      live.end(new OsmosisError('server_shutdown', 'rollout server shut down'))
    }
  }

  #select(selector: RolloutSelector): readonly string[] {
    if ('ids' in selector) return selector.ids
    const live = [...this.#live.keys()]
    return 'prefix' in selector ? live.filter((id) => id.startsWith(selector.prefix)) : live
  }

  #finish(live: LiveRollout, { status, failure, samples }: GradingOutcome): void {
    const { rolloutId } = live.request
    // The same id may have been accepted again by a caller that keeps no record of ids.
    if (this.#live.get(rolloutId) === live) this.#live.delete(rolloutId)
    const cause = failure?.cause
    const cancelled = isOsmosisError(cause) && cause.code === 'cancelled'
    const [only, ...others] = samples.values()
    const graded = status === 'success' && others.length === 0 && only && !only.removeSample
    this.#finished.end(rolloutId, {
      status: cancelled ? 'cancelled' : status,
      reward: graded ? only.reward : null,
      errorMessage: failure?.message ?? null,
    })
  }
}

/** The slots a config asks for: null is unlimited; a default without any config. */
function concurrencyOf(config: unknown): number | null {
  if (config === undefined) return defaultMaxConcurrent
  const limit = (config as Partial<BaseConfig>).concurrency?.maxConcurrent
  return limit === undefined ? null : wholeNumber('concurrency.maxConcurrent', limit)
}

function wholeNumber(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 1) return value
  throw new OsmosisError(
    'invalid_config',
    `${name} must be a whole number of at least 1, got ${String(value)}. Leave it out for no limit.`,
  )
}
