import { createBullBackend, startRolloutWorker } from '@osmosis/bullmq'
import { LocalBackend } from '@osmosis/runtime'
import { contractEntrypoints, runBackendContract } from '@osmosis/testing'
import { type RedisServer, startRedis, withPrograms } from '@osmosis/testing/kit'
import { afterAll } from 'vitest'

const { describe, it } = withPrograms('redis-server')

let redis: Promise<RedisServer> | undefined

runBackendContract({ describe, it, afterAll }, 'BullBackend', {
  open: async (entrypoint) => {
    redis ??= startRedis({ keep: () => {} })
    const { url } = await redis
    const options = contractEntrypoints[entrypoint]
    const connection = { url, prefix: entrypoint, code: 'c1' }
    const narrow = entrypoint === 'narrow' ? { maxConcurrent: 1, maxQueueDepth: 1 } : {}
    const backend = await createBullBackend({ ...connection, ...narrow })
    // Slots are those of the worker's own backend here.
    const worker = await startRolloutWorker({
      ...connection,
      backend: new LocalBackend(options),
      concurrency: 10,
    })
    const close = backend.close.bind(backend)
    return Object.assign(backend, {
      close: async () => {
        await worker.close()
        await close()
      },
    })
  },
})

afterAll(async () => {
  await (await redis)?.stop()
})
