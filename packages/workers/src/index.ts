export { runWorker, type WorkerEntrypoint } from './child/run-worker.ts'
export { createWorkerPool, type WorkerPoolBackend } from './pool/pool-backend.ts'
export { type WorkerEnd, type WorkerPoolOptions } from './pool/worker-pool.ts'
