// A process of bench distributed: a server that runs its rollouts itself (`in-process`) or in two
// workers (`pool`), or a server (`server`) and a worker (`worker`) of a queue. All run the same workflow,
// which makes four model calls. `bare-server` and `bare-worker` do the same work with only node:http and
// BullMQ: rollouts are jobs, and results are the return values of jobs. Sends its port to its parent, and its
// figures on request.
import { monitorEventLoopDelay } from 'node:perf_hooks'

import { createQueueServer, openQueue, startRolloutWorker } from '@osmosis/bullmq'
import {
  LocalBackend,
  type ExecutionBackend,
  createRolloutServer,
  serve,
  type RolloutServer,
} from '@osmosis/server'
import { createWorkerPool, runWorker } from '@osmosis/server/child'
import { Queue as Jobs, QueueEvents, Worker } from 'bullmq'
import { Redis } from 'ioredis'

import { askFourTimes } from './ask-four-times.ts'
import { acceptBare, askBare, tellBare, type BareRollout } from './bare-rollout.ts'

/** The role of a process. */
export type Role =
  | { readonly kind: 'in-process' | 'pool' }
  | { readonly kind: 'server' | 'bare-server'; readonly redis: Queue }
  | {
      readonly kind: 'worker' | 'bare-worker'
      readonly redis: Queue
      readonly concurrency: number
    }

/** The address of a queue. */
export interface Queue {
  readonly url: string
  readonly prefix: string
  /** How long a worker may be silent. Milliseconds; undefined: the default. */
  readonly lockDurationMs?: number
  /** Time between two checks for silent workers. Milliseconds; undefined: the default. */
  readonly stalledIntervalMs?: number
}

/** Figures of a process. */
export interface ProcessFigures {
  /** Time between two turns of the event loop, since the last report. Milliseconds. */
  readonly loopP99Ms: number
  /** Memory of the process. Bytes. */
  readonly rss: number
}

const code = 'benchmark'

/** The port that it listens on; a worker has none. */
async function start(role: Role): Promise<number | undefined> {
  switch (role.kind) {
    case 'in-process':
      return listen(toServer(new LocalBackend(askFourTimes)))
    case 'pool':
      return listen(toServer(await createWorkerPool({ module: import.meta.filename, workers: 2 })))
    case 'server': {
      const queue = await openQueue(role.redis)
      return listen(createQueueServer({ queue, code, logger: false }))
    }
    case 'worker': {
      const backend = new LocalBackend(askFourTimes)
      await startRolloutWorker({ ...role.redis, backend, code, concurrency: role.concurrency })
      return undefined
    }
    case 'bare-server':
      return startBareFront(role.redis)
    case 'bare-worker':
      await startBareWorker(role.redis, role.concurrency)
      return undefined
  }
}

const bareJobs = 'bare'

/** Accepts a rollout when its job is in Redis, and delivers its result when the completion event arrives. */
async function startBareFront({ url, prefix }: Queue): Promise<number> {
  const jobs = new Jobs<BareRollout>(bareJobs, {
    ...bareOptions(url, prefix),
    // More than are in flight, because the events contain the results.
    streams: { events: { maxLen: 1_000 } },
  })
  const events = new QueueEvents(bareJobs, bareOptions(url, prefix))
  await Promise.all([jobs.waitUntilReady(), events.waitUntilReady()])
  const running = new Map<string, BareRollout>()
  events.on('completed', ({ jobId, returnvalue }) => {
    const rollout = running.get(jobId)
    running.delete(jobId)
    if (rollout) void tellBare(rollout, returnvalue as object[])
  })
  return acceptBare(async (rollout) => {
    const { rollout_id: jobId } = rollout
    running.set(jobId, rollout)
    await jobs.add('rollout', rollout, { jobId, removeOnComplete: true })
  })
}

async function startBareWorker({ url, prefix }: Queue, concurrency: number): Promise<void> {
  const ask = async ({ data }: { data: BareRollout }): Promise<object[]> => askBare(data)
  const worker = new Worker(bareJobs, ask, { ...bareOptions(url, prefix), concurrency })
  await worker.waitUntilReady()
}

function bareOptions(url: string, prefix: string) {
  return { connection: new Redis(url, { maxRetriesPerRequest: null }), prefix }
}

function toServer(backend: ExecutionBackend): RolloutServer {
  return createRolloutServer({ backend, logger: false, trajectories: false })
}

async function listen(server: RolloutServer): Promise<number> {
  const { port } = await serve(server, { port: 0, handleSignals: false })
  return port
}

async function serveParent(role: Role): Promise<void> {
  const port = await start(role)
  // Only after the first request, because it wakes the process a thousand times a second.
  const delay = monitorEventLoopDelay({ resolution: 1 })
  process.on('message', () => {
    delay.enable()
    const figures = { loopP99Ms: delay.percentile(99) / 1e6, rss: process.memoryUsage.rss() }
    delay.reset()
    process.send?.(figures satisfies ProcessFigures)
  })
  process.on('disconnect', () => process.exit())
  process.send?.(port ?? 0)
}

// A child of the pool has no role.
const [, , role] = process.argv
if (role === undefined) await runWorker(async () => ({ backend: askFourTimes }))
else await serveParent(JSON.parse(role) as Role)
