// What servers of other rollout protocols, and queues in front of this one, are built on.
export { type CallbackDelivery, type CallbackRecord } from './delivery/callback-delivery.ts'
export { type Callback } from './journal/outbox-lines.ts'
export type { OutboxRecord } from './delivery/outbox-record.ts'
export { ownProcess } from './process/process-owner.ts'
export {
  HttpRefusal,
  jsonAnswer,
  jsonTextAnswer,
  traceHeadersOf,
  type ServerRoute,
} from './http/server-route.ts'
export { reachableUrl, withExactData } from './http/request-body.ts'
export { createServerShell, type ServerProtocol, type ServerServices } from './http/server-shell.ts'
export { showBackend } from './metrics/backend-figures.ts'
export type { CountedCall } from './metrics/rollout-figures.ts'
export type { ServerMetrics } from './metrics/server-metrics.ts'
export { OwnershipLog } from './work/ownership-log.ts'
export { portRoutes } from './rollout/ports/port-routes.ts'
export type {
  RolloutBody,
  LeaseResults,
  LeaseReader,
  RolloutControl,
  RolloutCounts,
  RolloutAdmission,
  RolloutPorts,
} from './rollout/ports/rollout-ports.ts'
export { conversationJson, type BodyParts } from './rollout/callback-bodies.ts'
export {
  deliverCompletion,
  deliverGrading,
  gradingOf,
  type CallbackInParts,
  type CallbackTargets,
  type CallbackContext,
} from './rollout/rollout-callbacks.ts'
export { newLease, toRolloutRequest, toTargets } from './rollout/rollout-requests.ts'
export {
  counted,
  countModelCalls,
  OutcomeLog,
  owned,
  stepRewardsDropped,
  warnOfStepRewards,
} from './rollout/server-stages.ts'
export { TrajectoryFiles, type RolloutTrajectory } from './rollout/trajectory-files.ts'
export { leasedResult, toLeasedEnd } from './rollout/leases.ts'
export { leaseSettings, type LeaseSettings } from './leases/lease-registry.ts'
export { digestOfToken, type LeaseOutcome } from './leases/leased-rollout.ts'
export { RowGroups, type RowGroupOptions } from './run/row-groups.ts'
export { rowOf, type TrainerRow } from './run/trainer-row.ts'
export { AdmittedIds } from './http/admitted-ids.ts'
export { Admission, digestOf, refusals } from './http/admission.ts'
