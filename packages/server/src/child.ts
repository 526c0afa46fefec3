export { moduleIn, runWorker, type WorkerEntrypoint } from './child/run-worker.ts'
export {
  startUserCode,
  type UserCodeOptions,
  type UserCodeProcess,
} from './child/pool/user-code-process.ts'
export { createWorkerPool, type WorkerPoolBackend } from './child/pool/pool-backend.ts'
export { type WorkerEnd, type WorkerPoolOptions } from './child/pool/worker-pool.ts'
// How samples, errors and events are sent between processes.
export {
  portable,
  receiveError,
  sendError,
  sendSamples,
  type SentError,
} from './child/portable-values.ts'
export {
  receiveGrading,
  receiveWorkflow,
  sendFailure,
  sendWorkflow,
  type SentFailure,
  type SentWorkflow,
} from './child/sent-events.ts'
