import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { wait } from '@osmosis/core/http'
import type { ExecutionBackend } from '@osmosis/protocol'
import { SecretValues } from '@osmosis/protocol/http'
import { silentLogger, type Logger } from '@osmosis/server'
import { runToEnd, type ExecutionOutcome } from '@osmosis/server/execution'
import { warnOfStepRewards } from '@osmosis/server/protocols'

import type { TrainerLink, TrainerTask } from './trainer-link.ts'
import { WakeUp } from './wake-up.ts'

/** Figures of a worker. */
export interface WorkerSummary {
  /** Rollouts by how they ended. */
  readonly ends: Readonly<Record<ExecutionOutcome['kind'], number>>
  /** Rollouts that were executed more than once. */
  readonly retried: number
  /** Rollouts whose outcome the trainer has acknowledged, or no longer needed. */
  readonly acknowledged: number
  /** Rollouts whose outcome could not be delivered. */
  readonly undelivered: number
  /** Claimed rollouts that are neither acknowledged nor undelivered: they run, or their outcome is pending. */
  readonly claimed: number
  /** Of these, those that have ended. */
  readonly pending: number
  /** Samples that got a reward. */
  readonly samples: number
  /** Those of them whose history was rewritten, so that a trainer cannot learn from them as one sequence. */
  readonly rewritten: number
  /** Answered model calls of those samples. */
  readonly calls: number
  /** Answers among them that were cut at the limit of tokens. */
  readonly cutOff: number
}

/** Counts outcomes. */
class WorkerFigures implements WorkerSummary {
  readonly ends = { rewarded: 0, removed: 0, failed: 0, cancelled: 0 }
  retried = 0
  undelivered = 0
  acknowledged = 0
  pending = 0
  claimed = 0
  samples = 0
  rewritten = 0
  calls = 0
  cutOff = 0

  count(end: ExecutionOutcome): void {
    this.ends[end.kind] += 1
    if (end.kind !== 'rewarded') return
    for (const { calls, extraFields } of end.samples.values()) {
      this.samples += 1
      if (extraFields['history_rewritten'] === true) this.rewritten += 1
      for (const { error, finishReason } of calls) {
        if (error !== null) continue
        this.calls += 1
        if (finishReason === 'length') this.cutOff += 1
      }
    }
  }

  /** As fields of a log line. */
  get line(): Readonly<Record<string, number>> {
    const { ends, retried, undelivered, samples, rewritten, calls, cutOff } = this
    return {
      ...ends,
      retried,
      undelivered,
      history_rewritten_share: share(rewritten, samples),
      cut_off_share: share(cutOff, calls),
    }
  }
}

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.round((part / whole) * 1000) / 1000
}

/** Options of {@link runTrainerWorker}. */
export interface TrainerWorkerOptions {
  /** Executes the rollouts. The caller that opened it closes it. */
  readonly backend: ExecutionBackend
  readonly link: TrainerLink
  /**
   * Maximum number of concurrent rollouts, including those whose outcome is being delivered. Rollouts
   * beyond the slots of the backend wait in its queue, where their deadline counts.
   */
  readonly concurrency: number
  /** Ends the worker: it claims no more, lets rollouts continue for `drainSeconds`, and cancels the rest. */
  readonly signal?: AbortSignal | undefined
  /** How long rollouts may continue after `signal` aborts. Seconds; default 30. */
  readonly drainSeconds?: number | undefined
  /** Default: nothing is logged. */
  readonly logger?: Logger | undefined
  /** Called once, with figures that stay current: for metrics. */
  readonly onStart?: ((figures: WorkerSummary) => void) | undefined
  /** How often figures are logged. Seconds; default 60. */
  readonly summarySeconds?: number | undefined
}

/**
 * Executes the rollouts that a trainer assigns and delivers their outcomes, until there are no more or the
 * signal aborts. It resolves or rejects only after every claimed rollout was reported, as far as the trainer
 * can be reached.
 *
 * @throws OsmosisError with code `unauthorized` when the trainer refuses the key, and any error that `claim`
 * of the link throws, both after all running rollouts were cancelled. Code `invalid_config` for a
 * concurrency that is not a whole number of at least 1
 */
export async function runTrainerWorker(options: TrainerWorkerOptions): Promise<WorkerSummary> {
  const { concurrency } = options
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    const why = `concurrency must be a whole number of at least 1, got ${concurrency}.`
    throw new OsmosisError('invalid_config', why)
  }
  return new TrainerWorker(options).run()
}

/** Longest interval of a timer of Node.js, 24.8 days; one with a longer one fires all the time. */
const maxTimerMs = 2 ** 31 - 1

interface RunningTask {
  task: TrainerTask
  /** What cancelled it; undefined while nothing has. */
  cancelledBy: 'trainer' | 'shutdown' | undefined
}

class TrainerWorker {
  readonly #options: TrainerWorkerOptions
  readonly #logger: Logger
  readonly #figures = new WorkerFigures()
  /** Keys of the policy, which error messages of user code may contain. */
  readonly #secrets = new SecretValues()
  readonly #running = new Set<RunningTask>()
  readonly #ending = new AbortController()
  /** The error that ended the worker. */
  #fatal: { readonly error: unknown } | undefined
  readonly #ended = new WakeUp()

  constructor(options: TrainerWorkerOptions) {
    this.#options = options
    this.#logger = options.logger ?? silentLogger
  }

  async run(): Promise<WorkerSummary> {
    const { signal, summarySeconds = 60, onStart } = this.#options
    onStart?.(this.#figures)
    const onAbort = (): void => this.#ending.abort()
    if (signal?.aborted) onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
    const summaryMs = Math.min(summarySeconds * 1000, maxTimerMs)
    const summary = setInterval(() => this.#logSummary('so far'), summaryMs)
    try {
      await this.#take()
      await this.#drain()
    } finally {
      clearInterval(summary)
      signal?.removeEventListener('abort', onAbort)
      this.#logSummary('in all')
    }
    if (this.#fatal) throw this.#fatal.error
    return this.#figures
  }

  async #take(): Promise<void> {
    const { concurrency, link } = this.#options
    while (!this.#ending.signal.aborted) {
      const free = concurrency - this.#running.size
      if (free <= 0) {
        await this.#nextEnd()
        continue
      }
      try {
        const tasks = await link.claim(free, this.#ending.signal)
        if (tasks === null) return
        for (const task of tasks) this.#start(task)
      } catch (error) {
        if (!this.#ending.signal.aborted) this.#fail(error)
      }
    }
  }

  async #nextEnd(): Promise<void> {
    const ending = this.#ending.signal
    ending.addEventListener('abort', this.#ended.now)
    await this.#ended.next
    ending.removeEventListener('abort', this.#ended.now)
  }

  #start(task: TrainerTask): void {
    const running: RunningTask = { task, cancelledBy: undefined }
    this.#running.add(running)
    this.#figures.claimed += 1
    this.#runAndDeliver(running)
      .catch((error: unknown) => {
        this.#figures.undelivered += 1
        if (isOsmosisError(error) && error.code === 'unauthorized') this.#fail(error)
        const line = { rollout_id: task.request.rolloutId, error: errorMessage(error) }
        this.#logger.error(
          line,
          `the outcome of a rollout was not delivered to ${this.#options.link.name}`,
        )
      })
      .finally(() => {
        this.#running.delete(running)
        this.#figures.claimed -= 1
        this.#ended.now()
      })
  }

  async #runAndDeliver(running: RunningTask): Promise<void> {
    const { link } = this.#options
    let end = await this.#runOnce(running)
    while (!this.#ending.signal.aborted && running.cancelledBy === undefined) {
      const again = await this.#retry(running.task, end)
      if (again === null) break
      this.#figures.retried += 1
      running.task = again
      end = await this.#runOnce(running)
    }
    this.#figures.count(end)
    if (end.kind === 'rewarded') {
      warnOfStepRewards(running.task.request.rolloutId, end.samples.values(), this.#logger)
    }
    this.#logEnd(running.task, end)
    this.#figures.pending += 1
    try {
      await link.complete(running.task, end)
      this.#figures.acknowledged += 1
    } finally {
      this.#figures.pending -= 1
    }
  }

  /** An error of the retry is logged: the outcome of the first execution must be delivered anyway. */
  async #retry(task: TrainerTask, end: ExecutionOutcome): Promise<TrainerTask | null> {
    try {
      return (await this.#options.link.retry?.(task, end)) ?? null
    } catch (error) {
      const line = { rollout_id: task.request.rolloutId, error: errorMessage(error) }
      this.#logger.warn(line, 'a rollout cannot be executed again')
      return null
    }
  }

  /** One execution of a task. */
  async #runOnce(running: RunningTask): Promise<ExecutionOutcome> {
    const { backend, link } = this.#options
    const { task } = running
    // It was claimed while the worker was ending.
    if (this.#ending.signal.aborted) return shutdown
    const over = new AbortController()
    link
      .watch?.(task, over.signal)
      .then((reason) => over.signal.aborted || this.#cancel(running, 'trainer', reason))
      .catch((error: unknown) => this.#logger.error({ error }, 'watching for withdrawal failed'))
    const { rolloutId: rollout_id } = task.request
    const forget = this.#secrets.add(task.request.apiKey)
    const end = await runToEnd(backend, task.request, {
      onEvent: (event) => {
        if (event.type !== 'workflow') return
        for (const warning of event.outcome.warnings) this.#logger.warn({ rollout_id }, warning)
      },
    })
    over.abort()
    const clean =
      'message' in end ? { ...end, message: this.#secrets.redactError(end.message) } : end
    forget()
    if (clean.kind === 'cancelled' && running.cancelledBy === 'shutdown') return shutdown
    return link.acceptedEnd?.(clean) ?? clean
  }

  #cancel(running: RunningTask, by: 'trainer' | 'shutdown', reason?: OsmosisError): void {
    running.cancelledBy ??= by
    this.#options.backend.cancel({ ids: [running.task.request.rolloutId] }, reason)
  }

  /** Waits up to `drainSeconds` for running rollouts, then cancels the rest and delivers that. */
  async #drain(): Promise<void> {
    const { drainSeconds = 30 } = this.#options
    const isOver = new AbortController()
    const cancelling = this.#cancelAfter(drainSeconds, isOver.signal)
    while (this.#running.size > 0) await this.#ended.next
    isOver.abort()
    await cancelling
  }

  async #cancelAfter(drainSeconds: number, isOver: AbortSignal): Promise<void> {
    try {
      // The trainer has no more rollouts: those that run may take as long as they need.
      if (!this.#ending.signal.aborted)
        await aborted(AbortSignal.any([this.#ending.signal, isOver]))
      if (!this.#fatal) await wait(drainSeconds * 1000, isOver)
    } catch {
      return
    }
    if (isOver.aborted) return
    const line = { running: this.#running.size }
    this.#logger.info(line, 'rollouts that still run are cancelled')
    for (const running of this.#running) this.#cancel(running, 'shutdown')
  }

  #fail(error: unknown): void {
    this.#fatal ??= { error }
    this.#ending.abort()
  }

  #logEnd({ request }: TrainerTask, end: ExecutionOutcome): void {
    const line = { rollout_id: request.rolloutId, end: end.kind }
    if (end.kind === 'failed') {
      this.#logger.warn({ ...line, category: end.category, error: end.message }, 'rollout failed')
    } else if (end.kind === 'cancelled') {
      this.#logger.info({ ...line, by: end.by, reason: end.message }, 'rollout cancelled')
    } else {
      this.#logger.debug(line, 'rollout ended')
    }
  }

  #logSummary(when: string): void {
    const line = { running: this.#running.size, ...this.#figures.line }
    this.#logger.info(line, `rollouts for ${this.#options.link.name}, ${when}`)
  }
}

const shutdown: ExecutionOutcome = {
  kind: 'cancelled',
  by: 'shutdown',
  message: 'The worker is shutting down.',
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise((resolve) => {
    signal.addEventListener('abort', resolve, { once: true })
  })
}
