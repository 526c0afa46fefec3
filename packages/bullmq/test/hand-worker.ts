import { randomUUID } from 'node:crypto'

import type { RolloutQueue } from '@osmosis/bullmq'
import { OsmosisError, type ExecutionBackend } from '@osmosis/core'
import { Worker } from 'bullmq'
import { Redis } from 'ioredis'

/** The least that runs rollouts of a queue. Resolves with what ends it. */
export async function startHandWorker(parts: {
  readonly url: string
  readonly queue: RolloutQueue
  readonly backend: ExecutionBackend
  readonly code: string
}): Promise<() => Promise<void>> {
  const { url, queue, backend, code } = parts
  const id = randomUUID()
  const connection = new Redis(url, { maxRetriesPerRequest: null })
  connection.on('error', () => {})
  const worker = new Worker<{ id: string }>(
    'rollouts',
    async ({ data }) => {
      const { runs } = queue
      const taken = await runs.take(data.id, {
        worker: id,
        token: randomUUID(),
        code,
        lockMs: 30_000,
      })
      if (taken.what !== 'run') return
      const of = { id: data.id, run: taken.run }
      await runs.begin(of)
      const look = setInterval(() => {
        runs.look(of).then(
          ({ cancel }) => cancel && backend.cancel({ ids: [data.id] }),
          () => {},
        )
      }, 20)
      await backend.execute(taken.request, {
        async beforeFirstModelCall() {
          if (!(await runs.mark(of))) throw new OsmosisError('cancelled', 'cancelled')
        },
        async workflowFinished(outcome, samples = new Map()) {
          const { grade } = taken.request
          await runs.settleWorkflow(of, outcome, samples, grade)
          if (!grade || outcome.failure !== null) return
          if (!taken.mayGrade) await queue.tell(data.id)
          while (!(await runs.look(of)).mayGrade) {
            await new Promise((resolve) => setTimeout(resolve, 5))
          }
        },
        async gradingFinished(outcome) {
          const { status } = (await queue.record(data.id)) ?? {}
          if (status === 'grading') await runs.settleGrading(of, outcome)
        },
      })
      clearInterval(look)
    },
    { connection, prefix: 'osmosis', concurrency: 100 },
  )
  worker.on('error', () => {})
  await worker.waitUntilReady()
  return async () => {
    await worker.close(true)
    connection.disconnect()
  }
}
