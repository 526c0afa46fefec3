export { moduleIn, runWorker, type WorkerEntrypoint } from './child/run-worker.ts'
export {
  startUserCode,
  type UserCodeOptions,
  type UserCodeProcess,
} from './child/pool/user-code-process.ts'
export { createWorkerPool, type WorkerPoolBackend } from './child/pool/pool-backend.ts'
export { type WorkerEnd, type WorkerPoolOptions } from './child/pool/worker-pool.ts'
// How samples, errors and events are sent between processes.
export { portable, sendSamples } from './child/portable-values.ts'
export { receiveError, sendError, type SentError } from './child/sent-errors.ts'
export {
  receiveGrading,
  receiveWorkflow,
  sendFailure,
  sendWorkflow,
  type SentFailure,
  type SentWorkflow,
} from './child/sent-events.ts'
