// The queue and its records in Redis, for tools and tests.
export { type QueueConnection } from './connection/queue-connection.ts'
export { queuePriority } from './server/queue-admission.ts'
export { RolloutQueue } from './queue/rollout-queue.ts'
export { type LeaseRecords } from './records/lease-records.ts'
export { type StoredWorkflow, type RecordFields } from './records/stored-outcomes.ts'
export { type RecordScript, type ScriptValue } from './records/script-library.ts'
export {
  type QueueAcceptance,
  type AcceptLimits,
  type RolloutEntry,
  type RolloutKind,
  type RolloutRecord,
  type DeliveryKind,
} from './records/rollout-record.ts'
export { type RolloutRecords } from './records/rollout-records.ts'
export {
  type QueuedExecutions,
  type QueuedExecution,
  type ExecutionState,
  type SettleAnswer,
  type TakeAnswer,
  type Taker,
  type Tries,
} from './records/queued-executions.ts'
