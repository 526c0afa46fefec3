export { type QueueConnectionOptions } from './connection/queue-connection.ts'
export { QueueKeys } from './connection/queue-keys.ts'
export { createQueueServer, type QueueServerOptions } from './front/queue-server.ts'
export { type OpenQueue, type QueueCounts } from './queue/open-queue.ts'
export { openQueue } from './queue/rollout-queue.ts'
export { type QueueWorker } from './queue/worker-list.ts'
export {
  startRolloutWorker,
  type RolloutWorker,
  type RolloutWorkerOptions,
} from './worker/rollout-worker.ts'
