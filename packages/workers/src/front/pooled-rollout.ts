import {
  type ConcurrencyLimiter,
  type GradingOutcome,
  afterLoss,
  failedWorkflow,
  graderDeadline,
  lossError,
  QueueClock,
  toFailure,
  workflowDeadline,
  type Deadline,
  type LiveRollout,
  type RolloutPhases,
  type WorkflowResult,
} from '@osmosis/runtime'
import { startTimer } from '@osmosis/core/http'

import { WorkerLoss, type ExecutionOrder } from './remote-run.ts'
import type { PlacedExecution, WorkerPool } from './worker-pool.ts'

/** For a worker to report the end of what was ended. */
const reactionMs = 1_000

/** What all rollouts of a pool share. */
export interface PoolParts {
  readonly pool: WorkerPool
  readonly workflowSlots: ConcurrencyLimiter
  readonly graderSlots: ConcurrencyLimiter
  readonly hasGrader: boolean
}

/** The phases of one rollout, in whatever workers it takes. */
export class PooledRollout implements RolloutPhases {
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
      const report = await this.#runSomewhere(live, clock, deadline)
      return { ...report, unasked: [] }
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
      // What is not graded after all, the worker finds out by itself.
      const takesSlot =
        hasGrader && samples.size > 0 && (request.label !== null || request.metadata !== null)
      if (takesSlot) release = await graderSlots.acquire(live.ending)
      deadline = graderDeadline(request)
      live.enter(deadline)
      const { run } = this.#placed as PlacedExecution
      run.grade()
      const graded = await this.#reported(run.grading.promise, deadline)
      // A success that was under way when the rollout was cancelled comes after what the canceller was told.
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

  /** Runs the workflow until it has ended, in another worker if one went before the policy was asked. */
  async #runSomewhere(
    live: LiveRollout,
    clock: QueueClock,
    deadline: Deadline,
  ): Promise<Pick<WorkflowResult, 'outcome' | 'samples'>> {
    const since = new QueueClock(live.request.queuedSeconds)
    const { beforeFirstModelCall, modelCallBegins } = live
    const toOrder = (): ExecutionOrder => {
      if (live.status === 'queued') {
        clock.stop()
        live.apply('code_started')
      }
      const request = { ...live.request, queuedSeconds: since.seconds }
      return { request, beforeFirstModelCall, modelCallBegins }
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
        if (run.hasBegun) lostWorkers += 1
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
   * Waits for a report of the worker. When the phase is ended the worker is asked to do so, and has a
   * moment to report it; code that blocks it must not hold up the outcome.
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
