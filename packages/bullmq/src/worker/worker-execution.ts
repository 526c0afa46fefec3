import { isOsmosisError, OsmosisError, type StartingModelCall } from '@osmosis/core'
import {
  type SamplesById,
  type ExecutionBackend,
  type GradingOutcome,
  type RolloutObserver,
  type RolloutRequest,
  type WorkflowOutcome,
  toFailure,
} from '@osmosis/runtime'

import type {
  QueuedExecutions,
  QueuedExecution,
  ExecutionState,
  SettleAnswer,
  TakeAnswer,
  Tries,
} from '../records/queued-executions.ts'
import { retryFor } from '../queue/redis-retries.ts'

/** What the runs of a worker share. */
export interface WorkerExecutionParts {
  readonly backend: ExecutionBackend
  readonly runs: QueuedExecutions
  /** How long an outcome waits for Redis. Milliseconds. */
  readonly patienceMs: number
  /** Called before each model call, see {@link RolloutObserver.modelCallBegins}. */
  readonly callBegins: (
    of: QueuedExecution,
    call: StartingModelCall,
    isMarked: boolean,
  ) => Promise<() => void>
}

/** One run of a rollout in this worker: what its backend reports goes into the record, while it counts. */
export class WorkerExecution {
  readonly of: QueuedExecution
  /** Settles when the outcome of the workflow is stored, or is no longer needed. */
  readonly workflow: Promise<void>
  /** Resolves when it has ended in this worker. */
  readonly over: Promise<void>
  readonly #parts: WorkerExecutionParts
  readonly #request: RolloutRequest
  readonly #mayGrade = Promise.withResolvers<void>()
  /** Why it is ended early. */
  #ending: OsmosisError | undefined
  #isGivenUp = false
  /** Model calls that started before the mark, which counts them; undefined from then on. */
  #started: number | undefined = 0

  constructor(
    parts: WorkerExecutionParts,
    of: QueuedExecution,
    taken: Extract<TakeAnswer, { what: 'run' }>,
  ) {
    const { request, mayGrade } = taken
    this.of = of
    this.#parts = parts
    this.#request = request
    if (mayGrade) this.#mayGrade.resolve()
    const workflow = Promise.withResolvers<void>()
    this.workflow = workflow.promise
    this.over = parts.backend.execute(request, this.#observer(workflow)).then(
      // No caller waits for a workflow that was abandoned.
      () => workflow.resolve(),
      (error: unknown) => workflow.reject(error),
    )
    this.workflow.catch(() => {})
  }

  /** What its record says of it: events only have somebody look. */
  follow({ isCurrent, mayGrade, cancel }: ExecutionState): void {
    if (!isCurrent) this.giveUp()
    if (cancel !== undefined) this.#end(cancel)
    if (mayGrade) this.#mayGrade.resolve()
  }

  /** Its grading may start. */
  allowGrading(): void {
    this.#mayGrade.resolve()
  }

  /** Nothing that it says counts any more. */
  giveUp(): void {
    this.#isGivenUp = true
    this.#end(givenUp)
  }

  #end(reason: OsmosisError): void {
    if (this.#ending !== undefined) return
    this.#ending = reason
    this.#parts.backend.cancel({ ids: [this.#request.rolloutId] })
    this.#mayGrade.resolve()
  }

  #observer(workflow: PromiseWithResolvers<void>): RolloutObserver {
    const { runs, callBegins } = this.#parts
    let hasFailed = false
    return {
      phaseChanged: (phase) => {
        if (phase === 'running') runs.begin(this.of).catch(() => {})
      },
      beforeFirstModelCall: async () => {
        const started = this.#started
        this.#started = undefined
        if (await this.#patiently(async () => runs.mark(this.of, started))) return
        const state = await this.#patiently(async () => runs.look(this.of))
        this.follow(state)
        throw state.cancel ?? givenUp
      },
      modelCallBegins: async (call) => {
        if (this.#isGivenUp) throw givenUp
        const isMarked = this.#started === undefined
        if (this.#started !== undefined) this.#started += 1
        return callBegins(this.of, call, isMarked)
      },
      workflowFinished: async (outcome, samples = new Map()) => {
        hasFailed = outcome.status === 'failure'
        await this.#workflowFinished(outcome, samples)
        workflow.resolve()
        if (!hasFailed && this.#request.grade) await this.#mayGrade.promise
      },
      gradingFinished: async (outcome) => {
        if (!hasFailed) await this.#gradingFinished(outcome)
      },
    }
  }

  async #workflowFinished(said: WorkflowOutcome, samples: SamplesById): Promise<void> {
    const { runs } = this.#parts
    const outcome = this.#explained(said)
    const settled = await this.#settled(async (tries) =>
      runs.settleWorkflow(this.of, outcome, samples, this.#request.grade, tries),
    )
    if (settled === 'after_cancel') {
      const reason = (await this.#patiently(async () => runs.look(this.of))).cancel ?? givenUp
      this.#end(reason)
      const cancelled = failed(reason)
      await this.#settled(async (tries) =>
        runs.settleWorkflow(this.of, cancelled, new Map(), false, tries),
      )
    }
    const partial = await said.partialSamples
    if (settled === 'kept' && partial !== undefined) {
      await this.#patiently(async () => runs.settlePartial(this.of, partial))
    }
  }

  async #gradingFinished(said: GradingOutcome): Promise<void> {
    const { runs } = this.#parts
    const { samples } = said
    const settled = await this.#settled(async (tries) =>
      runs.settleGrading(this.of, this.#explained(said), tries),
    )
    if (settled === 'after_cancel') {
      const reason = (await this.#patiently(async () => runs.look(this.of))).cancel ?? givenUp
      const outcome = { ...failed(reason), samples }
      await this.#settled(async (tries) => runs.settleGrading(this.of, outcome, tries))
    }
  }

  /** The backend only knows that it was cancelled; the record knows why. */
  #explained<T extends WorkflowOutcome | GradingOutcome>(outcome: T): T {
    const { failure } = outcome
    const reason = this.#ending
    if (reason === undefined || !isOsmosisError(failure?.cause)) return outcome
    return failure.cause.code === 'cancelled' ? { ...outcome, failure: toFailure(reason) } : outcome
  }

  async #settled(settle: (tries: Tries) => Promise<SettleAnswer>): Promise<string> {
    if (this.#isGivenUp) return 'stale'
    const settled = await settle(async (ask) => this.#patiently(ask))
    if (settled === 'stale') this.giveUp()
    return settled
  }

  async #patiently<T>(ask: () => Promise<T>): Promise<T> {
    return retryFor(this.#parts.patienceMs, ask)
  }
}

const givenUp = new OsmosisError(
  'worker_lost',
  'this worker was taken for lost, and what it still does for the rollout does not count',
)

function failed(reason: OsmosisError): WorkflowOutcome & { readonly status: 'failure' } {
  return { status: 'failure', failure: toFailure(reason), warnings: [] }
}

/** The rollouts that are in this worker, by the ids of their records. */
export class WorkerExecutions {
  readonly #all = new Map<string, WorkerExecution>()
  readonly #runs: QueuedExecutions

  constructor(runs: QueuedExecutions) {
    this.#runs = runs
  }

  get size(): number {
    return this.#all.size
  }

  get(id: string): WorkerExecution | undefined {
    return this.#all.get(id)
  }

  add(run: WorkerExecution): void {
    const { id } = run.of
    this.#all.set(id, run)
    run.over
      .then(() => {
        if (this.#all.get(id) === run) this.#all.delete(id)
        return undefined
      })
      .catch(() => {})
  }

  /** @param message - `grade` or `look`, the number of the run that counts, and the id of the rollout */
  hear(message: string): void {
    const [, what, current, id = ''] = /^(\w+) (\d+) (.*)$/s.exec(message) ?? []
    const run = this.#all.get(id)
    if (what === 'grade' && run?.of.run === Number(current)) run.allowGrading()
    else this.look(id).catch(() => {})
  }

  /** Looks at the record of a rollout: it is to be cancelled, graded or given up, perhaps. */
  async look(id: string): Promise<void> {
    const run = this.#all.get(id)
    if (run !== undefined) run.follow(await this.#runs.look(run.of))
  }

  /** Looks at all of them: messages may be lost. */
  async lookAtAll(): Promise<void> {
    await Promise.all([...this.#all.keys()].map(async (id) => this.look(id)))
  }

  /** Leaves all of them to other workers. */
  async leave(): Promise<void> {
    const all = [...this.#all.values()]
    for (const run of all) run.giveUp()
    await Promise.all(all.map(async ({ of }) => this.#runs.leave(of)))
  }

  /** Resolves when there are none. */
  async over(): Promise<void> {
    while (this.#all.size > 0) await Promise.all([...this.#all.values()].map(({ over }) => over))
  }
}
