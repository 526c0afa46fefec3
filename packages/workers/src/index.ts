export { runWorker, type WorkerEntrypoint } from './child/run-worker.ts'
export { createWorkerPool, type WorkerPoolBackend } from './front/worker-pool-backend.ts'
export { type WorkerEnd, type WorkerPoolOptions } from './front/worker-pool.ts'
