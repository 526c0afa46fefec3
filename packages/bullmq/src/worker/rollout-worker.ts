import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'

import { OsmosisError, type StartingModelCall } from '@osmosis/core'
import { timeLimit } from '@osmosis/core/http'
import { lossError, type ExecutionBackend } from '@osmosis/protocol'
import type { Logger } from '@osmosis/server'
import { Worker, type Job } from 'bullmq'

import { QueueConnection, type QueueConnectionOptions } from '../connection/queue-connection.ts'
import { retryFor, retryUntil } from '../connection/queue-retries.ts'
import {
  closeJobs,
  giveBack,
  later,
  queueNames,
  stalledIntervalFor,
  type RolloutJob,
} from '../queue/jobs.ts'
import { logReplication, logTroubles } from '../queue/queue-troubles.ts'
import { RolloutQueue } from '../queue/rollout-queue.ts'
import { removeHeartbeat, writeHeartbeat } from '../queue/worker-heartbeats.ts'
import {
  QueuedExecutions,
  type QueuedExecution,
  type TakeAnswer,
} from '../records/queued-executions.ts'
import { RolloutRecords } from '../records/rollout-records.ts'
import { ModelCallSlots } from './model-call-slots.ts'
import { RefusedRollouts } from './refused-rollouts.ts'
import { WorkerExecution, WorkerExecutions, type WorkerExecutionParts } from './worker-execution.ts'

/** Options of {@link startRolloutWorker}. */
export interface RolloutWorkerOptions extends QueueConnectionOptions {
  /** Executes the rollouts: a `LocalBackend` or a `WorkerPoolBackend`. The caller closes it. */
  readonly backend: ExecutionBackend
  /** Maximum concurrent workflows. */
  readonly concurrency: number
  /** Digest of the backend's code: rollouts that were accepted for other code are refused. */
  readonly code: string
  /**
   * How long this worker may be silent before others take over its rollouts. Milliseconds; default: 30,000.
   * Must be longer than anything that blocks the event loop.
   */
  readonly lockDurationMs?: number | undefined
  /** Maximum time between two checks for silent workers. Milliseconds; default: 5,000. */
  readonly stalledIntervalMs?: number | undefined
  /** How long outcomes wait while Redis is unreachable. Milliseconds; default: 600,000. */
  readonly patienceMs?: number | undefined
  /** Maximum concurrent model calls to one policy endpoint, over all workers. Default: unlimited. */
  readonly modelCallsPerEndpoint?: number | undefined
  /** Default: no log. */
  readonly logger?: Logger | undefined
}

/** Time between two checks of all executions in the worker. Milliseconds. */
const lookMs = 2_000
/** Resolution of the measurement of the event loop, which wakes an idle worker. Milliseconds. */
const loopLookMs = 100
/** Delay before a rollout for other workers is offered to a worker again. Milliseconds. */
const otherWorkerMs = 2_000
/** How long a closing worker tries to write to Redis. Milliseconds. */
const closingMs = 5_000
const unlimited = 1_000_000

/** Executes rollouts of a queue in this process. */
export class RolloutWorker implements AsyncDisposable {
  /** Different for each start. */
  readonly id = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`
  readonly #options: RolloutWorkerOptions
  readonly #connection: QueueConnection
  readonly #queue: RolloutQueue
  readonly #records: RolloutRecords
  readonly #runs: QueuedExecutions
  readonly #executions: WorkerExecutions
  readonly #parts: WorkerExecutionParts
  readonly #jobs: Worker<RolloutJob>
  readonly #slots: ModelCallSlots | undefined
  #timers: readonly NodeJS.Timeout[] = []
  readonly #loopDelay = monitorEventLoopDelay({ resolution: loopLookMs })
  readonly #leaving = new AbortController()
  readonly #lockMs: number
  /** Rollouts that it is about to start, by id. */
  readonly #taking = new Map<string, Promise<unknown>>()
  readonly #refused: RefusedRollouts
  /** When Redis last received a heartbeat, on the clock of this process. */
  #heardAt = performance.now()
  #beating = false
  #looking = false
  #closing: Promise<void> | undefined

  private constructor(
    options: RolloutWorkerOptions,
    connection: QueueConnection,
    queue: RolloutQueue,
  ) {
    const { lockDurationMs = 30_000, stalledIntervalMs = 5_000, patienceMs = 600_000 } = options
    const redis = connection.waiting()
    const { prefix } = connection
    this.#options = options
    this.#connection = connection
    this.#queue = queue
    this.#lockMs = lockDurationMs
    this.#refused = new RefusedRollouts(options.code, options.logger)
    this.#records = new RolloutRecords(connection, redis)
    this.#runs = new QueuedExecutions(this.#records, (id, hasEnded) => {
      // If the job cannot be added, a sweep finds the rollout later.
      queue.requestDelivery(id, { hasEnded }).catch(() => {})
    })
    this.#executions = new WorkerExecutions(this.#runs)
    const { backend, modelCallsPerEndpoint: limit } = options
    this.#slots =
      limit === undefined
        ? undefined
        : new ModelCallSlots(redis, { prefix, limit, holdMs: lockDurationMs })
    this.#parts = {
      backend,
      runs: this.#runs,
      patienceMs,
      callBegins: async (...started) => this.#callBegins(...started),
    }
    this.#jobs = new Worker(queueNames.rollouts, async (job, token) => this.#process(job, token), {
      connection: connection.waiting(),
      prefix,
      skipVersionCheck: true,
      autorun: false,
      concurrency: options.concurrency,
      lockDuration: lockDurationMs,
      stalledInterval: stalledIntervalFor(stalledIntervalMs),
      // The record decides how often a rollout is executed.
      maxStalledCount: unlimited,
      runRetryDelay: 1_000,
    })
    this.#jobs.on('error', (error) => {
      options.logger?.debug({ error: error.message }, 'a job could not be handled')
    })
    this.#jobs.on('lockRenewalFailed', () => this.#lookAtAll())
  }

  /** See {@link startRolloutWorker}. */
  static async start(options: RolloutWorkerOptions): Promise<RolloutWorker> {
    const queue = await RolloutQueue.open(options)
    const connection = new QueueConnection(options)
    let worker: RolloutWorker | undefined
    try {
      for (const warning of queue.warnings) options.logger?.warn({}, warning)
      logTroubles(queue, options.logger)
      worker = new RolloutWorker(options, connection, queue)
      logReplication(worker.#records, options.logger)
      await worker.#begin()
      return worker
    } catch (error) {
      if (worker !== undefined) worker.#slots?.close()
      connection.close()
      await queue.close()
      throw error
    }
  }

  /** Starts to take rollouts. It counts as a worker of the queue once it can work. */
  async #begin(): Promise<void> {
    const { prefix } = this.#connection
    await this.#connection.subscribe(`${prefix}:worker:${this.id}:control`, (message) =>
      this.#executions.onMessage(message),
    )
    await this.#jobs.waitUntilReady()
    await this.#sayAlive()
    this.#loopDelay.enable()
    this.#timers = [
      setInterval(() => this.#lookAtAll(), lookMs),
      setInterval(() => this.#beat(), this.#lockMs / 4),
    ]
    this.#jobs.run().catch((error: unknown) => {
      this.#options.logger?.error({ error }, 'this worker takes no more rollouts')
    })
  }

  /** Why the Redis of its queue does not store what it is asked to, as of the last second; undefined while it does. */
  get trouble(): OsmosisError | undefined {
    return this.#queue.trouble
  }

  /** Number of rollouts in it. */
  get active(): number {
    return this.#executions.size
  }

  /**
   * Takes no more rollouts, and resolves when those in it have ended.
   *
   * @param signal - when aborted, they are left to other workers: those that have not called the policy are
   * executed again, the others fail
   */
  async close(signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) this.#leaving.abort()
    else signal?.addEventListener('abort', () => this.#leaving.abort(), { once: true })
    this.#closing ??= this.#close()
    await this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    const left = new Promise<void>((resolve) => {
      const leave = (): void => {
        retryFor(closingMs, async () => this.#executions.leave()).then(resolve, resolve)
      }
      if (this.#leaving.signal.aborted) leave()
      this.#leaving.signal.addEventListener('abort', leave, { once: true })
    })
    // From here on no rollout is taken.
    this.#jobs.close().catch(() => {})
    const allEnded = async (): Promise<void> => Promise.race([this.#executions.ended(), left])
    await allEnded()
    await closeJobs(this.#jobs, this.#queue.records)
    // A job may have been on its way.
    await allEnded()
    for (const timer of this.#timers) clearInterval(timer)
    this.#loopDelay.disable()
    this.#slots?.close()
    const { prefix } = this.#connection
    const remove = async (): Promise<void> =>
      this.#records.ask(async (redis) => removeHeartbeat(redis, prefix, this.id))
    // Otherwise its heartbeat expires.
    await retryFor(closingMs, remove).catch(() => {})
    await this.#queue.close()
    this.#connection.close()
  }

  /** Settles with the workflow, because a grading continues without a job. */
  async #process(job: Job<RolloutJob>, token: string | undefined): Promise<void> {
    const { id } = job.data
    // The job was fetched while this worker started to drain.
    if (this.#closing !== undefined) return giveBack(job, token)
    // When its lock is lost, a job may come back to the worker that is about to take its rollout.
    while (this.#taking.has(id)) await this.#taking.get(id)
    const taking = this.#take(id)
    this.#taking.set(
      id,
      taking.catch(() => {}),
    )
    let taken: Awaited<typeof taking>
    try {
      taken = await taking
    } finally {
      this.#taking.delete(id)
    }
    if (taken instanceof WorkerExecution) return this.#waitFor(job, token, taken)
    switch (taken.what) {
      case 'ended':
        return undefined
      case 'busy':
        return later(job, token, Math.min(taken.goneInMs + 1, this.#lockMs / 2))
      case 'other-code':
      case 'other-keys':
        this.#refused.warn(id, taken)
        return later(job, token, otherWorkerMs)
      case 'lost': {
        const { patienceMs } = this.#parts
        await retryFor(patienceMs, async () =>
          this.#runs.giveUp({ id, run: taken.run }, taken.reason),
        )
      }
    }
  }

  /** Resolves with the execution in this worker, or with the reason why there is none. */
  async #take(
    id: string,
  ): Promise<WorkerExecution | Exclude<TakeAnswer, { what: 'run' | 'mine' }>> {
    const mine = this.#executions.get(id)
    const taker = {
      worker: this.id,
      token: randomUUID(),
      code: this.#options.code,
      lockMs: this.#lockMs,
      running: mine?.of.run,
    }
    const signal = timeLimit(this.#parts.patienceMs)
    const taken = await retryUntil(signal, async () => this.#runs.take(id, taker))
    if (taken.what === 'mine') return mine ?? { what: 'ended' }
    if (taken.what !== 'run') return taken
    this.#options.logger?.info({ rollout_id: id, run: taken.run }, 'rollout taken')
    mine?.abandon()
    await mine?.ended
    const run = new WorkerExecution(this.#parts, { id, run: taken.run }, taken)
    this.#executions.add(run)
    return run
  }

  async #waitFor(
    job: Job<RolloutJob>,
    token: string | undefined,
    run: WorkerExecution,
  ): Promise<void> {
    const { signal } = this.#leaving
    const left = Promise.withResolvers<'left'>()
    const onLeave = (): void => left.resolve('left')
    if (signal.aborted) onLeave()
    signal.addEventListener('abort', onLeave, { once: true })
    const what = await Promise.race([run.workflow, left.promise])
    signal.removeEventListener('abort', onLeave)
    if (what !== 'left') return
    await this.#executions.leave()
    return giveBack(job, token)
  }

  /** @param isMarked - whether the mark was set, which includes the calls before it */
  async #callBegins(
    of: QueuedExecution,
    call: StartingModelCall,
    isMarked: boolean,
  ): Promise<() => void> {
    // The last heartbeat is so old that another worker may have taken over.
    if (performance.now() - this.#heardAt > this.#lockMs) {
      // A rollout continues while Redis is unreachable.
      await Promise.race([this.#executions.look(of.id), sleep(lookMs)])
    }
    if (isMarked) this.#runs.count(of)
    return (await this.#slots?.begin(call)) ?? (() => {})
  }

  #lookAtAll(): void {
    // While Redis is unreachable, one check waits for it.
    if (this.#looking) return
    this.#looking = true
    Promise.all([this.#executions.lookAtAll(), this.#endForgotten()])
      .catch(() => {})
      .finally(() => {
        this.#looking = false
      })
      .catch(() => {})
  }

  /**
   * Fails gradings that are recorded for this worker but are not in it: their workflow's outcome was written
   * after the worker had stopped waiting for Redis.
   */
  async #endForgotten(): Promise<void> {
    const held = `${this.#connection.prefix}:held:${this.id}`
    const ids = await this.#records.ask(async (redis) => redis.smembers(held))
    for (const id of ids.filter((one) => this.#executions.get(one) === undefined)) {
      const record = await this.#records.read(id)
      if (record?.status !== 'grading' || record.worker !== this.id) continue
      await this.#runs.giveUp(record, lossError('the worker was lost', 'samples_lost'))
    }
  }

  #beat(): void {
    if (this.#beating) return
    this.#beating = true
    this.#sayAlive()
      .catch(() => {})
      .finally(() => {
        this.#beating = false
      })
      .catch(() => {})
  }

  async #sayAlive(): Promise<void> {
    const { code, concurrency } = this.#options
    const loopDelayMs = Math.max(Math.round(this.#loopDelay.max / 1e6) - loopLookMs, 0)
    this.#loopDelay.reset()
    const identity = { id: this.id, host: hostname(), pid: process.pid, code, concurrency }
    const { prefix } = this.#connection
    const worker = { ...identity, active: this.active, loopDelayMs }
    await this.#records.ask(async (redis) => writeHeartbeat(redis, prefix, worker, this.#lockMs))
    this.#heardAt = performance.now()
  }
}

/**
 * Starts to execute rollouts of a queue in this process. The caller closes it, which drains it.
 *
 * @throws OsmosisError with code `invalid_config`; `queue_unavailable` when Redis does not answer
 */
export async function startRolloutWorker(options: RolloutWorkerOptions): Promise<RolloutWorker> {
  if (options.backend.gradesGroups) {
    throw new OsmosisError(
      'invalid_config',
      'A queue distributes the attempts at a row over its workers, but a GroupGrader must see all of them: run it without a queue.',
    )
  }
  return RolloutWorker.start(options)
}
