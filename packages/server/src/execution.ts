// How rollouts are executed: for servers, workers and queues.
export { ConcurrencyLimiter } from './execution/concurrency-limiter.ts'
export {
  concurrencyLimits,
  hasRoom,
  wholeNumber,
  type ConcurrencyLimits,
  LocalBackend,
  type LocalBackendOptions,
} from './execution/local-backend.ts'
export { Deadline, graderDeadline, QueueClock, workflowDeadline } from './execution/deadline.ts'
export { ArtifactsFolder, LiveRollout } from './execution/live-rollout.ts'
export { LiveRollouts, type RolloutPhases } from './execution/live-rollouts.ts'
export { replaceMethods } from './execution/replaced-methods.ts'
export {
  oneReward,
  runToEnd,
  type RewardRule,
  type ExecutionOutcome,
} from './execution/rollout-end.ts'
export { failedWorkflow, toFailure, type WorkflowResult } from './execution/workflow-phase.ts'
export {
  discoverEntrypoint,
  discoverGrader,
  type Entrypoint,
} from './execution/discover-entrypoint.ts'
export {
  endWhenBlocked,
  exitDespiteThreads,
  FileSystemWatch,
} from './containment/blocked-threads.ts'
export {
  containUserCode,
  ignoreBrokenPipe,
  type Containment,
  type StrayOrigin,
  keepListeners,
} from './containment/contain-user-code.ts'
export { codeLine, codePlace, thrownBy } from './containment/error-place.ts'
export { runInRollout, type RolloutScope, UserCode } from './containment/user-code.ts'
