import { OsmosisError } from '@osmosis/core'
import { ReleasingMap } from '@osmosis/core/http'
import {
  cancelDispositions,
  endedState,
  endOfPhase,
  isEnded,
  type CancelDisposition,
  type GradingOutcome,
  type RolloutEvent,
  type RolloutFailure,
  type RolloutSelector,
  type RolloutState,
  type SamplesById,
} from '@osmosis/protocol'
import { RolloutMemory } from '@osmosis/protocol/http'

import type { LiveRollout } from './live-rollout.ts'
import { failedWorkflow, toFailure, type WorkflowResult } from './workflow-phase.ts'

/** The two phases of a rollout, wherever their code runs. Neither rejects. */
export interface RolloutPhases {
  workflow(live: LiveRollout): Promise<WorkflowResult>
  /** Called for a workflow that failed, when its outcome has been read. */
  workflowFailed?(live: LiveRollout, failure: RolloutFailure): void
  /** Called for a workflow that succeeded, when what follows its outcome is asked for. */
  grading(live: LiveRollout, result: WorkflowResult): Promise<GradingOutcome>
  /** Called after the last phase, also when nobody read on. */
  over?(live: LiveRollout): void
}

/**
 * The rollouts of a backend, and for some time those that have ended. Takes each through its phases
 * and answers questions about its state.
 */
export class LiveRollouts {
  readonly #live = new ReleasingMap<string, LiveRollout>()
  readonly #finished = new RolloutMemory<RolloutState>()

  /** Runs and grades one rollout, see `ExecutionBackend.execute`. */
  async *run(live: LiveRollout, phases: RolloutPhases): AsyncGenerator<RolloutEvent> {
    const { rolloutId, grade } = live.request
    this.#live.set(rolloutId, live)
    let hasFailed = true
    let worked: WorkflowResult | undefined
    const working = live.traced(() => phases.workflow(live))
    try {
      if (await live.startsBefore(working)) {
        yield { type: 'started' }
        live.goOn()
      }
      worked = await working
      if (live.hasWorkFolder) await live.storeWork()
      const result = this.#endWorkflow(live, worked)
      const { outcome, samples } = result
      const { failure } = outcome
      hasFailed = failure !== null
      yield { type: 'workflow', outcome, samples, traceHeaders: live.traceHeaders }
      if (failure !== null) phases.workflowFailed?.(live, failure)
      if (failure !== null || !grade) return
      const graded = await live.traced(() => phases.grading(live, result))
      const grading = this.#endGrading(live, graded)
      hasFailed = grading.failure !== null
      yield { type: 'graded', outcome: grading }
    } finally {
      if (!isEnded(live.status))
        await this.#abandon(live, worked === undefined ? working : undefined)
      phases.over?.(live)
      live.close()
      if (live.hasWorkFolder) await live.removeWork(hasFailed)
    }
  }

  status(rolloutId: string): RolloutState {
    const live = this.#live.get(rolloutId)
    if (live) return { status: live.status, reward: null, errorMessage: null }
    return this.#finished.get(rolloutId) ?? { status: 'unknown', reward: null, errorMessage: null }
  }

  cancel(
    selector: RolloutSelector,
    reason = new OsmosisError('cancelled', 'cancelled'),
  ): Map<string, CancelDisposition> {
    const dispositions = new Map<string, CancelDisposition>()
    for (const id of this.#select(selector)) {
      const live = this.#live.get(id)
      if (live === undefined || live.endedWith !== undefined) {
        // A prefix names no rollout that was cancelled before and has not ended yet.
        if ('ids' in selector) dispositions.set(id, 'not_found')
        continue
      }
      dispositions.set(id, cancelDispositions[live.status])
      live.end(reason)
    }
    return dispositions
  }

  /** Fails everything that is still in progress because the process is about to end. */
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

  /** Nobody reads how the rollout ends, so it ends now. `working` is its workflow, if that still runs. */
  async #abandon(live: LiveRollout, working: Promise<WorkflowResult> | undefined): Promise<void> {
    const reason = new OsmosisError('cancelled', 'nobody waits for the rollout any more')
    live.end(reason)
    await working
    if (working !== undefined) this.#endWorkflow(live, failedWorkflow(reason))
    else
      this.#endGrading(live, { status: 'failure', failure: toFailure(reason), samples: new Map() })
  }

  #endWorkflow(live: LiveRollout, result: WorkflowResult): WorkflowResult {
    const { outcome, samples } = result
    const { failure } = outcome
    const next = live.apply(endOfPhase('workflow', failure, live.request.grade))
    if (next === 'after_cancel') {
      return this.#endWorkflow(live, failedWorkflow(live.endedWith, Promise.resolve(samples)))
    }
    if (next !== 'grading') this.#remember(live, failure, failure === null ? samples : new Map())
    return result
  }

  #endGrading(live: LiveRollout, grading: GradingOutcome): GradingOutcome {
    const { failure, samples } = grading
    if (live.apply(endOfPhase('grading', failure)) === 'after_cancel') {
      const cancelled = { status: 'failure', failure: toFailure(live.endedWith), samples } as const
      return this.#endGrading(live, cancelled)
    }
    this.#remember(live, failure, samples)
    return grading
  }

  #remember(live: LiveRollout, failure: RolloutFailure | null, samples: SamplesById): void {
    const { rolloutId } = live.request
    // A caller that does not record ids may have submitted the same id again.
    if (this.#live.get(rolloutId) === live) this.#live.delete(rolloutId)
    this.#finished.end(rolloutId, endedState(failure, samples))
  }
}
