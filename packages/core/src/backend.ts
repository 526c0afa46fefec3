// What backends are made of, for the other `@osmosis` packages. Not part of the promised API: names
// here may change in any version.
export { ArtifactsFolder } from './backend/artifacts-folder.ts'
export { isCancellation } from './backend/cancellation.ts'
export {
  concurrencyLimits,
  hasRoom,
  wholeNumber,
  type ConcurrencyLimits,
} from './backend/concurrency-limits.ts'
export { Deadline } from './backend/deadline.ts'
export { LiveRollout } from './backend/live-rollout.ts'
export { LiveRollouts, type RolloutPhases } from './backend/live-rollouts.ts'
export { graderDeadline, QueueClock, workflowDeadline } from './backend/phase-deadlines.ts'
export { failedWorkflow, toFailure, type WorkflowResult } from './backend/workflow-phase.ts'
export { groupSettings } from './workflow/config.ts'
export { isGroupGraderClass } from './workflow/group-grader.ts'
