export { ConcurrencyLimiter } from './backend/concurrency-limiter.ts'
export {
  concurrencyLimits,
  hasRoom,
  wholeNumber,
  type ConcurrencyLimits,
  LocalBackend,
  type LocalBackendOptions,
} from './backend/local-backend.ts'
export { Deadline, graderDeadline, QueueClock, workflowDeadline } from './backend/deadline.ts'
export {
  type BackendLoad,
  type BackendWorkers,
  type ExecutionBackend,
  type GradingOutcome,
  type RolloutFailure,
  type RolloutObserver,
  type RolloutRequest,
  type RolloutSelector,
  type RolloutState,
  type SamplesById,
  type WorkflowOutcome,
} from './backend/execution-backend.ts'
export { ArtifactsFolder, LiveRollout } from './backend/live-rollout.ts'
export { LiveRollouts, type RolloutPhases } from './backend/live-rollouts.ts'
export { replaceMethods } from './backend/replaced-methods.ts'
export { oneReward, runToEnd, type RewardRule, type RolloutEnd } from './backend/rollout-end.ts'
export { failedWorkflow, toFailure, type WorkflowResult } from './backend/workflow-phase.ts'
export {
  discoverEntrypoint,
  discoverGrader,
  type Entrypoint,
} from './entrypoint/discover-entrypoint.ts'
export {
  afterLoss,
  cancelDispositions,
  endedState,
  endOfPhase,
  endStates,
  interrupted,
  isCancellation,
  isEnded,
  isFinal,
  leaseAfter,
  leaseSteps,
  lifecycleStates,
  lossError,
  lossRules,
  stateAfter,
  transitions,
  type DeliveryOutcome,
  type EventRefusal,
  type LeaseState,
  type LifecycleEvent,
  type LifecyclePosition,
  type LifecycleState,
  type LossReason,
  type LostExecution,
} from './lifecycle/rollout-lifecycle.ts'
export type { CancelDisposition, RolloutStatus } from './wire/rollout-protocol.ts'
