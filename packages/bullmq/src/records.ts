// The queue and its records in Redis, for programs that inspect them.
export { type QueueConnection } from './connection/queue-connection.ts'
export { queuePriority } from './queue/queue-priority.ts'
export { RolloutQueue } from './queue/rollout-queue.ts'
export { type LeaseRecords } from './records/lease-records.ts'
export { type KeptWorkflow, type RecordFields } from './records/record-fields.ts'
export { type RecordScript, type ScriptValue } from './records/script-library.ts'
export {
  type QueueAcceptance,
  type AcceptLimits,
  type RolloutEntry,
  type RolloutKind,
  type RolloutRecord,
  type ToldKind,
} from './records/rollout-record.ts'
export { type RolloutRecords } from './records/rollout-records.ts'
export {
  type RolloutRuns,
  type RunOf,
  type QueuedRunState,
  type Settled,
  type Taken,
  type Taker,
  type Tries,
} from './records/rollout-runs.ts'
