import { setTimeout as sleep } from 'node:timers/promises'

import type { Worker } from 'bullmq'

import type { RolloutRecords } from '../records/rollout-records.ts'

const everyMs = 500
/** Looks at a Redis that is away before nobody waits for it. */
const mostMisses = 6

/** Has jobs end, but for those that wait for a Redis that is gone: BullMQ would wait with them. */
export async function closeJobs(jobs: Worker, records: RolloutRecords): Promise<void> {
  let closed = false
  const closing = jobs.close().then(() => {
    closed = true
    return undefined
  })
  for (let misses = 0; misses < mostMisses;) {
    await Promise.race([closing, sleep(everyMs)])
    if (closed) return
    const isThere = await records
      .ask(async (redis) => redis.ping())
      .then(
        () => true,
        () => false,
      )
    misses = isThere ? 0 : misses + 1
  }
}
