export { moduleIn, runWorker, type WorkerEntrypoint } from './child/run-worker.ts'
export {
  startUserCode,
  type UserCodeOptions,
  type UserCodeProcess,
} from './child/pool/user-code-process.ts'
export { createWorkerPool, type WorkerPoolBackend } from './child/pool/pool-backend.ts'
export { type WorkerEnd, type WorkerPoolOptions } from './child/pool/worker-pool.ts'
// How samples, errors and failures are sent between processes.
export {
  portable,
  receiveError,
  receiveFailure,
  sendError,
  sendFailure,
  sendSamples,
  type SentError,
  type SentFailure,
} from './child/portable-values.ts'
