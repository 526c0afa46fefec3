import { randomUUID } from 'node:crypto'

import {
  type BackendLoad,
  type ExecutionBackend,
  type RolloutObserver,
  type RolloutRequest,
  type RolloutSelector,
  type RolloutState,
  ArtifactsFolder,
  LiveRollout,
  LiveRollouts,
} from '@osmosis/runtime'
import type { CancelDisposition } from '@osmosis/runtime/wire'
import type { EgressOptions, OsmosisError } from '@osmosis/core'

import type { QueueConnectionOptions } from '../connection/queue-connection.ts'
import { attachedPrefix } from '../queue/job-names.ts'
import { RolloutQueue } from '../queue/rollout-queue.ts'
import { BullRollout } from './bull-rollout.ts'

/** Options of {@link createBullBackend}. */
export interface BullBackendOptions extends QueueConnectionOptions {
  /** Digest of the code that workers must have. */
  readonly code: string
  /** How many rollouts of this front run at a time, as its load has it; default: any number. */
  readonly maxConcurrent?: number | undefined
  /** Rollouts that may wait before {@link BullBackend.hasCapacity} is false; default: any number. */
  readonly maxQueueDepth?: number | undefined
  /** Where rollouts keep files, as workers have it; default: there are none. */
  readonly artifactRoot?: string | undefined
  /** Where rollouts may connect to, as workers have it. */
  readonly egress?: EgressOptions | undefined
}

/** Between two renewals of what this front waits for. Milliseconds. */
const renewMs = 15_000

/**
 * Has rollouts run by the workers of a queue, and waits for what comes of them. They end with this front:
 * those that are to outlive it are accepted by a server of `createQueueServer`.
 */
export class BullBackend implements ExecutionBackend, AsyncDisposable {
  readonly artifactRoot: string | undefined
  readonly egress: EgressOptions | undefined
  readonly #queue: RolloutQueue
  readonly #options: BullBackendOptions
  readonly #rollouts = new LiveRollouts()
  /** Those that are not past their workflow. */
  readonly #working = new Set<LiveRollout>()
  readonly #attached = new Set<string>()
  readonly #renewing: NodeJS.Timeout

  private constructor(queue: RolloutQueue, options: BullBackendOptions) {
    this.#queue = queue
    this.#options = options
    this.artifactRoot = options.artifactRoot
    this.egress = options.egress
    this.#renewing = setInterval(() => {
      for (const id of this.#attached) queue.records.hear(id).catch(() => {})
    }, renewMs)
  }

  /** See {@link createBullBackend}. */
  static async open(options: BullBackendOptions): Promise<BullBackend> {
    return new BullBackend(await RolloutQueue.open(options), options)
  }

  async execute(request: RolloutRequest, observer: RolloutObserver): Promise<void> {
    const artifacts = new ArtifactsFolder(this.artifactRoot ?? '', request.rolloutId)
    const live = new LiveRollout(request, artifacts, observer)
    const id = attachedPrefix + randomUUID()
    const rollout = new BullRollout(this.#queue, id, this.#options.code)
    this.#working.add(live)
    this.#attached.add(id)
    let partial: Promise<unknown> | undefined
    try {
      await this.#rollouts.run(live, observer, {
        workflow: async () => {
          const result = await rollout.workflow(live)
          this.#working.delete(live)
          partial = result.outcome.partialSamples
          return result
        },
        grading: async (_live, result) => rollout.grading(live, result),
      })
    } finally {
      await partial
      this.#attached.delete(id)
      // A sweep forgets what could not be forgotten now.
      await this.#queue.records.forget(id).catch(() => {})
    }
  }

  hasCapacity(): boolean {
    const { maxConcurrent, maxQueueDepth } = this.#options
    if (maxConcurrent === undefined || maxQueueDepth === undefined) return true
    return this.#working.size < maxConcurrent + maxQueueDepth
  }

  load(): BackendLoad {
    const { maxConcurrent = null } = this.#options
    const running = [...this.#working].filter(({ status }) => status === 'running').length
    return { maxConcurrent, queued: this.#working.size - running, running }
  }

  status(rolloutId: string): RolloutState {
    return this.#rollouts.status(rolloutId)
  }

  cancel(selector: RolloutSelector, reason?: OsmosisError): Map<string, CancelDisposition> {
    return this.#rollouts.cancel(selector, reason)
  }

  shutdown(): void {
    this.#rollouts.shutdown()
  }

  /** Closes its connections; rollouts that are going on end with it. */
  async close(): Promise<void> {
    clearInterval(this.#renewing)
    await this.#queue.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/**
 * Opens a backend whose rollouts are run by the workers of a queue. The caller closes it.
 *
 * @throws OsmosisError with code `invalid_config`; `queue_unavailable` when Redis does not answer
 */
export async function createBullBackend(options: BullBackendOptions): Promise<BullBackend> {
  return BullBackend.open(options)
}
