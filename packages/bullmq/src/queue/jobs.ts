import { setTimeout as sleep } from 'node:timers/promises'

import { DelayedError, WaitingError, type Job, type Worker } from 'bullmq'

import type { RolloutRecords } from '../records/rollout-records.ts'

/** Queues of BullMQ. */
export const queueNames = { rollouts: 'rollouts', results: 'results' } as const

/** What a job is about; everything else is in the record. */
export interface RolloutJob {
  readonly id: string
}

/** The id of the jobs of a rollout: BullMQ takes neither colons nor whole numbers. */
export function jobIdOf(id: string): string {
  return `r-${id.replaceAll(/[%:]/g, (character) => encodeURIComponent(character))}`
}

/** A job is given up by our own rules alone. */
export const again = { attempts: 1_000_000, removeOnComplete: true, removeOnFail: true } as const

/**
 * What BullMQ is told so that it looks for jobs without a lock at least every `mostMs`. It lets nobody look
 * again before its interval is over, by the clock of Redis; about one look in ten comes a moment too
 * early for that, does nothing, and the next is an interval later.
 */
export function stalledIntervalFor(mostMs: number): number {
  return Math.ceil(mostMs / 2)
}

/** Leaves a job to other workers, as the next one. */
export async function giveBack(job: Job<RolloutJob>, token: string | undefined): Promise<never> {
  await job.moveToWait(token)
  throw new WaitingError()
}

export async function later(
  job: Job<RolloutJob>,
  token: string | undefined,
  ms: number,
): Promise<never> {
  await job.moveToDelayed(Date.now() + ms, token)
  throw new DelayedError()
}

const everyMs = 500
/** Failed pings before closing stops waiting for Redis. */
const mostMisses = 6

/** Closes a worker of BullMQ; while Redis is unreachable, BullMQ itself would wait without end. */
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
