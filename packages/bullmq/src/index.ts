export {
  createBullBackend,
  type BullBackend,
  type BullBackendOptions,
} from './backend/bull-backend.ts'
export { type QueueConnection, type QueueConnectionOptions } from './connection/queue-connection.ts'
export { QueueKeys } from './connection/queue-keys.ts'
export { queuePriority } from './queue/queue-priority.ts'
export { RolloutQueue, type QueueCounts } from './queue/rollout-queue.ts'
export { type WakeListener } from './queue/wakes.ts'
export { type QueueWorker } from './queue/worker-list.ts'
export {
  hasEnded,
  type Acceptance,
  type AcceptLimits,
  type RolloutEntry,
  type RolloutKind,
  type RolloutRecord,
  type ToldKind,
} from './records/rollout-record.ts'
export { type KeptWorkflow, type RecordFields } from './records/record-fields.ts'
export { type RolloutRecords } from './records/rollout-records.ts'
export {
  type RolloutRuns,
  type RunOf,
  type RunState,
  type Settled,
  type Taken,
  type Taker,
  type Tries,
} from './records/rollout-runs.ts'
export { type RecordScript, type ScriptValue } from './records/record-scripts.ts'
export { type Samples } from './records/kept-samples.ts'
export { createQueueServer, type QueueServerOptions } from './front/queue-server.ts'
export {
  startRolloutWorker,
  type RolloutWorker,
  type RolloutWorkerOptions,
} from './worker/rollout-worker.ts'
