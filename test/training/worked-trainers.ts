// Trainers that a worker fetches rollouts from.
import type { ExecutionBackend } from '@osmosis/server'
import { agentLightning, runTrainerWorker, type TrainerLink } from '@osmosis/trainer-links'

import { FakeAgentLightning } from '../kit/trainers/index.ts'
import type { TrainerUnderTest } from './trainer-under-test.ts'

const concurrency = 128

/** Agent Lightning, which fills missing rewards with 0: `void` is what keeps failures out. */
export const lightning: TrainerUnderTest = {
  async open(model, backend) {
    const fake = await FakeAgentLightning.start({ model })
    const worker = startWorker(backend, agentLightning({ url: fake.url, lookSeconds: 0.02 }))
    let batches = 0
    return {
      async runBatch(rows, attempts) {
        batches += 1
        const queued = rows.flatMap(({ initialMessages: messages, ...row }, at) => {
          const group = `${batches}-${at + 1}`
          return Array.from({ length: attempts }, (_, n) => ({
            id: `${group}-${n + 1}`,
            group,
            input: { messages, ...row },
          }))
        })
        fake.enqueue(queued)
        await Promise.race([fake.allEnded(), worker.failed])
      },
      trained: () => fake.trained(),
      async [Symbol.asyncDispose]() {
        await worker.end()
        await fake.close()
      },
    }
  },
}

interface StartedWorker {
  /** Rejects when the worker does; never resolves. */
  readonly failed: Promise<never>
  end(): Promise<void>
}

function startWorker(backend: ExecutionBackend, link: TrainerLink): StartedWorker {
  const ending = new AbortController()
  const { signal } = ending
  const failed = Promise.withResolvers<never>()
  const working = runTrainerWorker({ backend, link, concurrency, signal, drainSeconds: 0 }).catch(
    failed.reject,
  )
  return {
    failed: failed.promise,
    async end() {
      ending.abort()
      await working
      await link[Symbol.asyncDispose]()
    },
  }
}
