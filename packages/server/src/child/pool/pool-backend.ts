import { type EgressOptions, OsmosisError } from '@osmosis/core'
import { startTimer } from '@osmosis/core/http'
import {
  afterLoss,
  lossError,
  type BackendLoad,
  type BackendWorkers,
  type ExecutionBackend,
  type GradingOutcome,
  type ModelCallGates,
  type RolloutEvent,
  type RolloutRequest,
  type RolloutSelector,
  type RolloutState,
} from '@osmosis/protocol'
import type { CancelDisposition } from '@osmosis/protocol/wire'

import {
  graderDeadline,
  QueueClock,
  workflowDeadline,
  type Deadline,
} from '../../execution/deadline.ts'
import { ArtifactsFolder, LiveRollout } from '../../execution/live-rollout.ts'
import { LiveRollouts, type RolloutPhases } from '../../execution/live-rollouts.ts'
import { ConcurrencyLimiter } from '../../execution/slots/concurrency-limiter.ts'
import { hasRoom } from '../../execution/slots/concurrency-limits.ts'
import { failedWorkflow, toFailure, type WorkflowResult } from '../../execution/workflow-phase.ts'
import type { WorkerRollouts } from '../worker-messages.ts'
import { WorkerLoss, type ExecutionOrder } from './remote-execution.ts'
import { WorkerPool, type PlacedExecution, type WorkerPoolOptions } from './worker-pool.ts'

/**
 * Executes rollouts in child processes. This process loads no user code, which can end its own worker but
 * not lose results that have already arrived here.
 */
export class WorkerPoolBackend implements ExecutionBackend, AsyncDisposable {
  /** Where rollouts store files. */
  readonly artifactRoot: string
  /** Where rollouts may connect to, as the module of the workers configures it. */
  readonly egress: EgressOptions | undefined
  /** Data of the workers' module about its entrypoint. */
  readonly facts: unknown
  readonly #pool: WorkerPool
  readonly #parts: PoolParts
  readonly #maxQueueDepth: number | undefined
  readonly #rollouts = new LiveRollouts()

  private constructor(pool: WorkerPool, rollouts: WorkerRollouts, facts: unknown) {
    const { artifactRoot, egress, workflows, graders, maxQueueDepth, graded } = rollouts
    this.artifactRoot = artifactRoot
    this.egress = egress
    this.facts = facts
    this.#pool = pool
    this.#maxQueueDepth = maxQueueDepth
    this.#parts = {
      pool,
      // Slots of all workers together: a waiting rollout is in none of them.
      workflowSlots: new ConcurrencyLimiter(workflows),
      graderSlots: new ConcurrencyLimiter(graders),
      hasGrader: graded,
    }
  }

  /** See {@link createWorkerPool}. */
  static async start(options: WorkerPoolOptions): Promise<WorkerPoolBackend> {
    const pool = new WorkerPool(options)
    const { rollouts, facts } = await pool.start()
    if (rollouts !== undefined) return new WorkerPoolBackend(pool, rollouts, facts)
    await pool.close()
    throw new OsmosisError('invalid_entrypoint', `${options.module} executes no rollouts.`)
  }

  execute(request: RolloutRequest, gates?: ModelCallGates): AsyncIterable<RolloutEvent> {
    const artifacts = new ArtifactsFolder(this.artifactRoot, request.rolloutId)
    const live = new LiveRollout(request, artifacts, { gates })
    return this.#rollouts.run(live, new PooledRollout(this.#parts))
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

  /** The process ids of the running workers. */
  get workerPids(): readonly number[] {
    return this.#pool.pids
  }

  /**
   * The running workers, and how many were replaced so far: after an `exit`, an `uncaught` error, too much
   * `memory`, a `stall`, a native `crash`, another `signal`, when they were `killed` from outside, or did
   * not `start`. Workers report their resources once a second unless their event loop is blocked.
   */
  workers(): BackendWorkers {
    const { pids, restarts, usage } = this.#pool
    return { running: pids.length, restarts, ...usage }
  }

  /**
   * Sends a question to the module of the workers: one of them answers.
   *
   * @throws the error of its `answer`; OsmosisError with code `worker_lost` when the worker ends
   */
  async ask(question: unknown): Promise<unknown> {
    return this.#pool.ask(question)
  }

  /** Ends all workers, whose rollouts fail. Resolves when they have exited. */
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

/** How long a worker has to report the end of an aborted phase. */
const reactionMs = 1_000

/** Parts that all rollouts of a pool share. */
interface PoolParts {
  readonly pool: WorkerPool
  readonly workflowSlots: ConcurrencyLimiter
  readonly graderSlots: ConcurrencyLimiter
  readonly hasGrader: boolean
}

/** The phases of one rollout, in one or more workers. */
class PooledRollout implements RolloutPhases {
  readonly #parts: PoolParts
  #placed: PlacedExecution | undefined

  constructor(parts: PoolParts) {
    this.#parts = parts
  }

  async workflow(live: LiveRollout): Promise<WorkflowResult> {
    const { request } = live
    const clock = new QueueClock(request.queuedSeconds)
    const deadline = workflowDeadline(request, clock)
    live.enter(deadline)
    let release: (() => void) | undefined
    try {
      release = await this.#parts.workflowSlots.acquire(deadline.signal)
      const { outcome, samples } = await this.#runSomewhere(live, clock, deadline)
      return { outcome, samples, unasked: [] }
    } catch (error) {
      return failedWorkflow(error)
    } finally {
      release?.()
      deadline.clear()
    }
  }

  async grading(live: LiveRollout, { samples }: WorkflowResult): Promise<GradingOutcome> {
    const { request } = live
    const { graderSlots, hasGrader } = this.#parts
    let release: (() => void) | undefined
    let deadline: Deadline | undefined
    try {
      live.ending.throwIfAborted()
      // Otherwise the worker decides that the rollout is not graded.
      const takesSlot =
        hasGrader && samples.size > 0 && (request.label !== null || request.metadata !== null)
      if (takesSlot) release = await graderSlots.acquire(live.ending)
      deadline = graderDeadline(request)
      live.enter(deadline)
      const { run } = this.#placed as PlacedExecution
      run.grade()
      const graded = await this.#reported(run.grading.promise, deadline)
      // A success that arrives after the cancel contradicts the answer to the canceller, so it is refused.
      if (graded.status === 'success') deadline.signal.throwIfAborted()
      return graded
    } catch (error) {
      this.#giveUp(error)
      const reason = error instanceof WorkerLoss ? lossError(error.what, 'samples_lost') : error
      return { status: 'failure', failure: toFailure(reason), samples }
    } finally {
      release?.()
      deadline?.clear()
    }
  }

  /** A worker must not wait forever, with the samples and the work folder, for a grading that nobody asks for. */
  over({ endedWith }: LiveRollout): void {
    if (this.#placed?.run.waitsForGrading) this.#giveUp(endedWith)
  }

  /** Runs the workflow to its end, in another worker when one is lost before it has called the policy. */
  async #runSomewhere(
    live: LiveRollout,
    clock: QueueClock,
    deadline: Deadline,
  ): Promise<Pick<WorkflowResult, 'outcome' | 'samples'>> {
    const since = new QueueClock(live.request.queuedSeconds)
    const { gates } = live
    const toOrder = (): ExecutionOrder => {
      if (live.status === 'queued') {
        clock.stop()
        live.apply('code_started')
      }
      const request = { ...live.request, queuedSeconds: since.seconds }
      return { request, gates }
    }
    let lostWorkers = 0
    for (let executions = 1; ; executions += 1) {
      const { signal } = deadline
      const placed = await this.#parts.pool.run(toOrder, lostWorkers > 0, signal)
      this.#placed = placed
      const { run } = placed
      try {
        return await this.#reported(run.workflow.promise, deadline)
      } catch (error) {
        this.#giveUp(error)
        if (!(error instanceof WorkerLoss)) throw error
        if (run.hasStarted) lostWorkers += 1
        const cancelled = live.endedWith !== undefined
        const { calledPolicy } = run
        const reason = afterLoss({
          cancelled,
          grading: false,
          calledPolicy,
          lostWorkers,
          executions,
        })
        if (reason === 'cancelled') throw live.endedWith ?? error
        if (reason !== undefined) throw lossError(error.what, reason)
      }
    }
  }

  /**
   * Waits for a report of the worker. When the phase is aborted, the worker is notified and has a short
   * time to report; code that blocks it must not delay the outcome.
   */
  async #reported<T>(report: Promise<T>, { signal }: Deadline): Promise<T> {
    const unanswered = Promise.withResolvers<never>()
    let timer: ReturnType<typeof startTimer> | undefined
    const onAbort = (): void => {
      this.#placed?.run.end(signal.reason)
      timer = startTimer(reactionMs, () => unanswered.reject(signal.reason))
    }
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      return await Promise.race([report, unanswered.promise])
    } finally {
      signal.removeEventListener('abort', onAbort)
      timer?.clear()
    }
  }

  #giveUp(reason: unknown): void {
    if (this.#placed === undefined) return
    const { run, worker } = this.#placed
    run.end(reason)
    worker.forget(run)
  }
}
