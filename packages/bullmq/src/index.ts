export { type QueueConnectionOptions } from './connection/queue-connection.ts'
export { QueueKeys } from './connection/queue-keys.ts'
export { createQueueServer, type QueueServerOptions } from './server/queue-server.ts'
export { openQueue, type OpenQueue, type QueueCounts } from './queue/rollout-queue.ts'
export { type QueueWorker } from './queue/worker-heartbeats.ts'
export {
  startRolloutWorker,
  type RolloutWorker,
  type RolloutWorkerOptions,
} from './worker/rollout-worker.ts'
