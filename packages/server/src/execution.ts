// How rollouts are executed: for servers, workers and queues.
export { ConcurrencyLimiter } from './execution/slots/concurrency-limiter.ts'
export { LocalBackend, type LocalBackendOptions } from './execution/local-backend.ts'
export { ArtifactsFolder, LiveRollout } from './execution/live-rollout.ts'
export { settled, withStages } from './execution/rollout-stages.ts'
export {
  oneReward,
  runToEnd,
  type RewardRule,
  type ExecutionOutcome,
} from './execution/rollout-end.ts'
export { toFailure } from './execution/workflow-phase.ts'
export {
  discoverEntrypoint,
  discoverGrader,
  type Entrypoint,
} from './execution/discover-entrypoint.ts'
export { endWhenBlocked, exitDespiteThreads } from './containment/blocked-threads.ts'
export {
  ignoreBrokenPipe,
  type Containment,
  type StrayOrigin,
} from './containment/contain-user-code.ts'
export { codeLine, thrownBy } from './containment/error-place.ts'
export { type RolloutScope, UserCode } from './containment/user-code.ts'
