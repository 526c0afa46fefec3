import { OsmosisError } from '@osmosis/core'
import { ReleasingMap } from '@osmosis/core/http'
import { RolloutMemory } from '@osmosis/protocol/http'
import {
  cancelDispositions,
  endedState,
  endOfPhase,
  type CancelDisposition,
  type GradingOutcome,
  type RolloutFailure,
  type RolloutObserver,
  type RolloutSelector,
  type RolloutState,
  type SamplesById,
} from '@osmosis/protocol'
import type { LiveRollout } from './live-rollout.ts'
import { failedWorkflow, toFailure, type WorkflowResult } from './workflow-phase.ts'

/** The two phases of a rollout, wherever their code runs. Neither rejects. */
export interface RolloutPhases {
  workflow(live: LiveRollout): Promise<WorkflowResult>
  /** Called for a workflow that failed, when its outcome has been reported. */
  workflowFailed?(live: LiveRollout, failure: RolloutFailure): void
  /** Called for a workflow that succeeded, when its outcome has been reported. */
  grading(live: LiveRollout, result: WorkflowResult): Promise<GradingOutcome>
  /** Called after the last phase, also when an observer has thrown. */
  over?(live: LiveRollout): void
}

/**
 * The rollouts of a backend, and for some time those that have ended. Takes each through its phases
 * and answers questions about its state.
 */
export class LiveRollouts {
  readonly #live = new ReleasingMap<string, LiveRollout>()
  readonly #finished = new RolloutMemory<RolloutState>()

  /** Runs and grades one rollout; everything that happens goes to `observer`. Rejects only as that does. */
  async run(live: LiveRollout, observer: RolloutObserver, phases: RolloutPhases): Promise<void> {
    const { rolloutId, grade } = live.request
    this.#live.set(rolloutId, live)
    let hasFailed = true
    try {
      const worked = await phases.workflow(live)
      if (live.hasWorkFolder) await live.storeWork()
      const result = this.#endWorkflow(live, worked)
      const { outcome, samples } = result
      const { failure } = outcome
      hasFailed = failure !== null
      await observer.workflowFinished(outcome, samples)
      if (!grade) return
      if (failure) phases.workflowFailed?.(live, failure)
      const grading: GradingOutcome = failure
        ? { status: 'failure', failure, samples: new Map() }
        : this.#endGrading(live, await phases.grading(live, result))
      hasFailed = grading.failure !== null
      await observer.gradingFinished(grading)
    } finally {
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
        dispositions.set(id, 'not_found')
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
