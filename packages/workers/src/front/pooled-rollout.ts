import { OsmosisError } from '@osmosis/core'
import {
  type ConcurrencyLimiter,
  type GradingOutcome,
  failedWorkflow,
  graderDeadline,
  QueueClock,
  toFailure,
  workflowDeadline,
  type Deadline,
  type LiveRollout,
  type RolloutPhases,
  type WorkflowResult,
} from '@osmosis/runtime'
import { startTimer } from '@osmosis/core/http'

import { WorkerLoss, type RunOrder } from './remote-run.ts'
import type { PlacedRun, WorkerPool } from './worker-pool.ts'

/** For a worker to report the end of what was ended. */
const reactionMs = 1_000
/** Workers that a rollout may bring down. */
const mostDowned = 2
/** Workers that may end with a rollout in their pipe, whose code they have not begun. */
const mostTries = 5

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
  #placed: PlacedRun | undefined

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
      const { run } = this.#placed as PlacedRun
      run.grade()
      const graded = await this.#reported(run.grading.promise, deadline)
      // A success that was under way when the rollout was cancelled comes after what the canceller was told.
      if (graded.status === 'success') deadline.signal.throwIfAborted()
      return graded
    } catch (error) {
      this.#giveUp(error)
      return { status: 'failure', failure: toFailure(explained(error, notGraded)), samples }
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
    const toOrder = (): RunOrder => {
      if (live.status === 'queued') {
        clock.stop()
        live.advance('running')
      }
      const request = { ...live.request, queuedSeconds: since.seconds }
      return { request, beforeFirstModelCall, modelCallBegins }
    }
    let downed = 0
    for (let tries = 1; ; tries += 1) {
      const { signal } = deadline
      const placed = await this.#parts.pool.run(toOrder, downed > 0, signal)
      this.#placed = placed
      const { run } = placed
      try {
        return await this.#reported(run.workflow.promise, deadline)
      } catch (error) {
        this.#giveUp(error)
        if (!(error instanceof WorkerLoss)) throw error
        if (!run.isRepeatable) throw explained(error, notRepeated)
        if (run.hasBegun) downed += 1
        if (downed === mostDowned) throw explained(error, downedBefore)
        if (tries === mostTries) throw explained(error, neverBegun)
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

const notRepeated =
  'the rollout had asked the policy already, so it was not run again: a second run under its id would mix two trajectories'
const downedBefore = 'it is the second worker that ended with this rollout in it'
const neverBegun = 'no worker has lived long enough to begin this rollout'
const notGraded = 'the samples of the rollout were in it, and are not graded'

/** A loss with what it means for the rollout; any other error as it is. */
function explained(error: unknown, consequence: string): unknown {
  if (!(error instanceof WorkerLoss)) return error
  return new OsmosisError('worker_lost', `${error.what}; ${consequence}`)
}
