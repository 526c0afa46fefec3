import { setTimeout as sleep } from 'node:timers/promises'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import {
  type SamplesById,
  type GradingOutcome,
  Deadline,
  QueueClock,
  toFailure,
  workflowDeadline,
  type LiveRollout,
  type RolloutPhases,
  type WorkflowResult,
} from '@osmosis/runtime'

import { queuePriority } from '../queue/queue-priority.ts'
import type { RolloutQueue } from '../queue/rollout-queue.ts'
import type { RolloutRecord } from '../records/rollout-record.ts'
import { patiently } from '../queue/patience.ts'

/** For a worker to report the end of what was ended. Milliseconds. */
const reactionMs = 2_000
/** For what was said in a workflow that failed. Milliseconds. */
const partialMs = 3_000
/** For a Redis that is away while a rollout is on its way. Milliseconds. */
const patienceMs = 600_000
const pauseMs = 500
/** How long a rollout goes on whose front is not heard of. Milliseconds. */
const leaseMs = 60_000

/** The phases of one rollout that this front waits for, in whatever workers it takes. */
export class BullRollout implements RolloutPhases {
  readonly id: string
  readonly #queue: RolloutQueue
  readonly #code: string
  #answered = false

  constructor(queue: RolloutQueue, id: string, code: string) {
    this.#queue = queue
    this.id = id
    this.#code = code
  }

  async workflow(live: LiveRollout): Promise<WorkflowResult> {
    const { request } = live
    const clock = new QueueClock(request.queuedSeconds)
    const deadline = workflowDeadline(request, clock)
    live.enter(deadline)
    const stopListening = this.#queue.listen(this.id, (status) => {
      if (status !== 'running' || live.status !== 'queued') return
      clock.stop()
      live.advance('running')
    })
    try {
      deadline.signal.throwIfAborted()
      await this.#queue.accept({
        id: this.id,
        kind: 'attached',
        digest: '',
        answer: '',
        code: this.#code,
        request,
        priority: queuePriority(request),
        asksFront: live.beforeFirstModelCall !== undefined,
        lease: { tokenDigest: '', ms: leaseMs },
      })
      const kept = await this.#reported(deadline, async (record) => {
        if (record.hasAsked && record.run > 0) this.#answerFirstCall(live)
        return record.has.workflow ? this.#queue.records.workflow(this.id) : undefined
      })
      const { outcome, samples } = kept
      // A run may be over before anybody was woken by its beginning.
      if (outcome.status === 'success' && live.status === 'queued') live.advance('running')
      if (outcome.status === 'success') return { outcome, samples, unasked: [] }
      const partialSamples = this.#partial()
      return { outcome: { ...outcome, partialSamples }, samples, unasked: [] }
    } catch (error) {
      const outcome = { status: 'failure', failure: toFailure(error), warnings: [] } as const
      return { outcome, samples: new Map(), unasked: [] }
    } finally {
      stopListening()
      deadline.clear()
    }
  }

  async grading(live: LiveRollout, { samples }: WorkflowResult): Promise<GradingOutcome> {
    const { rolloutId } = live.request
    // The worker knows when its grader begins, and so when it is late.
    const phase = new Deadline({ rolloutId, part: 'grader' }, null, neverLate)
    try {
      live.ending.throwIfAborted()
      live.enter(phase)
      await patiently(patienceMs, async () => this.#queue.records.allowGrading(this.id), isAway)
      const graded = await this.#reported(phase, async (record) =>
        record.has.grading ? this.#queue.records.grading(this.id) : undefined,
      )
      // A success that was under way when the rollout was cancelled comes after what the canceller was told.
      if (graded.status === 'success') phase.signal.throwIfAborted()
      return graded
    } catch (error) {
      await this.#cancel(error as OsmosisError)
      return { status: 'failure', failure: toFailure(error), samples }
    } finally {
      phase.clear()
    }
  }

  /**
   * Follows the record until it has what is wanted. When the phase is ended the worker is asked to do so,
   * and has a moment to report it.
   */
  async #reported<T>(
    { signal }: Deadline,
    read: (record: RolloutRecord) => Promise<T | undefined>,
  ): Promise<T> {
    const unanswered = new AbortController()
    const onAbort = (): void => {
      const reason = signal.reason as OsmosisError
      this.#cancel(reason)
        .then(async () => sleep(reactionMs))
        .then(() => unanswered.abort(reason))
        .catch(() => {})
    }
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    let awaySince: number | undefined
    const follow = async (): Promise<T> => {
      for await (const record of this.#queue.watch(this.id, unanswered.signal)) {
        awaySince = undefined
        const found = await read(record)
        if (found !== undefined) return found
      }
      throw recordLost
    }
    try {
      for (;;) {
        try {
          return await follow()
        } catch (error) {
          awaySince ??= performance.now()
          if (!isAway(error) || performance.now() - awaySince > patienceMs) throw error
        }
        await sleep(pauseMs)
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** What was said in a workflow that failed, which its worker writes a little later. */
  async #partial(): Promise<SamplesById> {
    try {
      const late = AbortSignal.timeout(partialMs)
      for await (const { has, run, worker } of this.#queue.watch(this.id, late)) {
        if (has.partial || worker === undefined || run === 0) break
      }
      const kept = await this.#queue.records.workflow(this.id)
      return (await kept?.outcome.partialSamples) ?? new Map()
    } catch {
      return new Map()
    }
  }

  /** Once: a rollout that has asked is not run again. */
  #answerFirstCall({ beforeFirstModelCall }: LiveRollout): void {
    if (this.#answered || beforeFirstModelCall === undefined) return
    this.#answered = true
    const answer = async (error?: unknown): Promise<void> =>
      patiently(patienceMs, async () => this.#queue.records.answerFirstCall(this.id, error), isAway)
    beforeFirstModelCall()
      .then(async () => answer(), answer)
      .catch(() => {})
  }

  async #cancel(reason: OsmosisError): Promise<void> {
    await this.#queue.cancel({ ids: [this.id] }, reason).catch(() => {})
  }
}

/** Nobody will ever write an outcome for it. */
const recordLost = new OsmosisError(
  'worker_lost',
  'the Redis of the queue has lost the rollout: it was restarted without an append-only file, or dropped the record',
)

function isAway(error: unknown): boolean {
  return isOsmosisError(error) && error.code === 'queue_unavailable'
}

function neverLate(): never {
  throw new Error('A phase without a limit is never late.')
}
