import {
  ConcurrencyLimiter,
  type BackendLoad,
  type BackendWorkers,
  type ExecutionBackend,
  type RolloutObserver,
  type RolloutRequest,
  type RolloutSelector,
  type RolloutState,
  ArtifactsFolder,
  hasRoom,
  LiveRollout,
  LiveRollouts,
} from '@osmosis/runtime'
import type { CancelDisposition } from '@osmosis/runtime/wire'
import type { EgressOptions, OsmosisError } from '@osmosis/core'

import type { ReadyMessage } from '../protocol/worker-messages.ts'
import { PooledRollout, type PoolParts } from './pooled-rollout.ts'
import { WorkerPool, type WorkerPoolOptions } from './worker-pool.ts'

/**
 * Executes rollouts in child processes. This process loads no user code: whatever that does ends its
 * own worker at most, and no result that is here already.
 */
export class WorkerPoolBackend implements ExecutionBackend, AsyncDisposable {
  /** Where rollouts keep files. */
  readonly artifactRoot: string
  /** Where rollouts may connect to, as the module of the workers has it. */
  readonly egress: EgressOptions | undefined
  /** What the module of the workers says of its entrypoint. */
  readonly facts: unknown
  readonly #pool: WorkerPool
  readonly #parts: PoolParts
  readonly #maxQueueDepth: number | undefined
  readonly #rollouts = new LiveRollouts()

  private constructor(pool: WorkerPool, { limits, artifactRoot, egress, facts }: ReadyMessage) {
    this.artifactRoot = artifactRoot
    this.egress = egress
    this.facts = facts
    this.#pool = pool
    this.#maxQueueDepth = limits.maxQueueDepth
    this.#parts = {
      pool,
      // Held here, for all workers together: what waits belongs to none of them.
      workflowSlots: new ConcurrencyLimiter(limits.workflows),
      graderSlots: new ConcurrencyLimiter(limits.graders),
      hasGrader: limits.graded,
    }
  }

  /** See {@link createWorkerPool}. */
  static async start(options: WorkerPoolOptions): Promise<WorkerPoolBackend> {
    const pool = new WorkerPool(options)
    return new WorkerPoolBackend(pool, await pool.start())
  }

  async execute(request: RolloutRequest, observer: RolloutObserver): Promise<void> {
    const artifacts = new ArtifactsFolder(this.artifactRoot, request.rolloutId)
    const live = new LiveRollout(request, artifacts, observer)
    await this.#rollouts.run(live, observer, new PooledRollout(this.#parts))
  }

  hasCapacity(): boolean {
    return hasRoom(this.#parts.workflowSlots, this.#maxQueueDepth)
  }

  load(): BackendLoad {
    const { maxConcurrent, queued, running } = this.#parts.workflowSlots
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

  /** The ids of the worker processes there are. */
  get workerPids(): readonly number[] {
    return this.#pool.pids
  }

  /**
   * The workers there are, and how many were replaced so far: after an `exit`, an `uncaught` error, too
   * much `memory`, a `stall`, a native `crash`, another `signal`, when they were `killed` from outside,
   * or did not `start`. What they take they say up to once a second; one whose event loop is blocked
   * says it later.
   */
  workers(): BackendWorkers {
    const { pids, restarts, usage } = this.#pool
    return { running: pids.length, restarts, ...usage }
  }

  /**
   * Puts a question to the module of the workers: one of them answers.
   *
   * @throws what its `answer` rejects with; OsmosisError with code `worker_lost` when the worker ends
   */
  async ask(question: unknown): Promise<unknown> {
    return this.#pool.ask(question)
  }

  /** Ends all workers; rollouts that are still in them fail. Resolves when they have ended. */
  async close(): Promise<void> {
    await this.#pool.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/**
 * Starts worker processes, and resolves when all of them have loaded their entrypoint. The caller
 * closes the backend; workers end with this process in any case.
 *
 * @throws OsmosisError with code `invalid_entrypoint`, or the error of the module that cannot load it;
 * with code `worker_lost` when a worker was killed from outside three times before it had loaded
 */
export async function createWorkerPool(options: WorkerPoolOptions): Promise<WorkerPoolBackend> {
  return WorkerPoolBackend.start(options)
}
