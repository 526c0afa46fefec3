import { errorCategory, errorMessage } from '@osmosis/core'
import {
  isEnded,
  stateAfter,
  transitionOf,
  type ExecutionBackend,
  type LifecycleState,
  type ModelCallGates,
  type RolloutEvent,
  type RolloutFailure,
  type RolloutRequest,
  type RolloutStage,
} from '@osmosis/protocol'

/**
 * Makes events that always say how the rollout ended: where the backend throws, or ends without a result, the
 * missing outcome is a failure of the backend. An event that the lifecycle refuses is
 * left out, so that no outcome is reported twice.
 */
export async function* settled(
  events: AsyncIterable<RolloutEvent>,
  { grade }: Pick<RolloutRequest, 'grade'>,
): AsyncGenerator<RolloutEvent> {
  let status: LifecycleState = 'queued'
  let failure: RolloutFailure
  try {
    for await (const event of events) {
      const next = stateAfter({ status, isCancelled: false }, transitionOf(event, grade))
      if (next === 'stale' || next === 'after_cancel') continue
      status = next
      yield event
    }
    if (isEnded(status)) return
    failure = failureOf(new Error('The backend ended the rollout without a result.'))
  } catch (error) {
    if (isEnded(status)) return
    failure = failureOf(error)
  }
  const outcome = { status: 'failure', failure } as const
  if (status === 'grading') yield { type: 'graded', outcome: { ...outcome, samples: new Map() } }
  else yield { type: 'workflow', outcome: { ...outcome, warnings: [] }, samples: new Map() }
}

function failureOf(error: unknown): RolloutFailure {
  return {
    message: errorMessage(error),
    category: errorCategory(error),
    cause: error,
    isOfBackend: true,
  }
}

/** The events of a rollout after all stages, the first of which is next to the backend. */
export function executeThrough(
  stages: readonly RolloutStage[],
  backend: Pick<ExecutionBackend, 'execute'>,
  request: RolloutRequest,
  gates?: ModelCallGates,
): AsyncIterable<RolloutEvent> {
  return stages.reduce<AsyncIterable<RolloutEvent>>(
    (events, stage) => stage(events, request),
    executed(backend, request, gates),
  )
}

/** A backend that throws at once is seen by the stages as one that throws later. */
async function* executed(
  backend: Pick<ExecutionBackend, 'execute'>,
  request: RolloutRequest,
  gates: ModelCallGates | undefined,
): AsyncGenerator<RolloutEvent> {
  yield* backend.execute(request, gates)
}

/** The same backend, the events of whose rollouts pass through these stages. */
export function withStages(
  backend: ExecutionBackend,
  ...stages: readonly RolloutStage[]
): ExecutionBackend {
  return {
    artifactRoot: backend.artifactRoot,
    egress: backend.egress,
    gradesGroups: backend.gradesGroups,
    execute: (request, gates) => executeThrough(stages, backend, request, gates),
    hasCapacity: () => backend.hasCapacity(),
    load: () => backend.load(),
    ...(backend.workers && { workers: backend.workers.bind(backend) }),
    status: (rolloutId) => backend.status(rolloutId),
    cancel: (selector, reason) => backend.cancel(selector, reason),
    shutdown: () => backend.shutdown(),
  }
}
