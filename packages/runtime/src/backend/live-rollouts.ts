import { OsmosisError } from '@osmosis/core'
import { beginningOf, errorTextBytes, ReleasingMap } from '@osmosis/core/http'
import { RolloutMemory } from '../http/rollout-memory.ts'
import type { CancelDisposition } from '../wire/rollout-protocol.ts'
import { isCancellation } from './cancellation.ts'
import type {
  GradingOutcome,
  RolloutFailure,
  RolloutObserver,
  RolloutSelector,
  RolloutState,
} from './execution-backend.ts'
import type { LiveRollout } from './live-rollout.ts'
import { failedWorkflow, type WorkflowResult } from './workflow-phase.ts'

/** The two phases of a rollout, wherever their code runs. Neither rejects. */
export interface RolloutPhases {
  workflow(live: LiveRollout): Promise<WorkflowResult>
  /** Called for a workflow that failed, when its outcome has been reported. */
  workflowFailed?(live: LiveRollout, failure: RolloutFailure): void
  /** Called for a workflow that succeeded, when its outcome has been reported. */
  grading(live: LiveRollout, result: WorkflowResult): Promise<GradingOutcome>
  /** Called when nothing follows, also where an observer has thrown. */
  over?(live: LiveRollout): void
}

/**
 * The rollouts of a backend, and for some time those that have ended: takes each through its phases
 * and knows its state.
 */
export class LiveRollouts {
  readonly #live = new ReleasingMap<string, LiveRollout>()
  readonly #finished = new RolloutMemory<RolloutState>()

  /** Runs and grades one rollout; everything that happens goes to `observer`. Rejects only as that does. */
  async run(live: LiveRollout, observer: RolloutObserver, phases: RolloutPhases): Promise<void> {
    const { rolloutId, grade } = live.request
    this.#live.set(rolloutId, live)
    try {
      const result = ofItsTime(live, await phases.workflow(live))
      const { outcome, samples } = result
      const { failure } = outcome
      if (failure) this.#finish(live, { status: 'failure', failure, samples: new Map() })
      else if (!grade) this.#finish(live, { status: 'success', failure, samples })
      else live.advance('grading')

      await observer.workflowFinished(outcome, samples)
      if (!grade) return
      if (failure) phases.workflowFailed?.(live, failure)
      const grading: GradingOutcome = failure
        ? { status: 'failure', failure, samples: new Map() }
        : await phases.grading(live, result)
      if (!failure) this.#finish(live, grading)
      await observer.gradingFinished(grading)
    } finally {
      phases.over?.(live)
      live.close()
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
      dispositions.set(id, live.status === 'queued' ? 'cancelled_queued' : 'cancelled_running')
      live.end(reason)
    }
    return dispositions
  }

  /** Fails everything that is still going on because the process is about to end. */
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
    const [only, ...others] = samples.values()
    const graded = status === 'success' && others.length === 0 && only && !only.removeSample
    this.#finished.end(rolloutId, {
      status: isCancellation(failure?.cause) ? 'cancelled' : status,
      reward: graded ? only.reward : null,
      errorMessage: failure && beginningOf(failure.message, errorTextBytes),
    })
  }
}

/**
 * A success that was under way when the rollout was ended comes after what whoever ended it was told.
 */
function ofItsTime({ endedWith }: LiveRollout, result: WorkflowResult): WorkflowResult {
  if (endedWith === undefined || result.outcome.status === 'failure') return result
  return failedWorkflow(endedWith, Promise.resolve(result.samples))
}
