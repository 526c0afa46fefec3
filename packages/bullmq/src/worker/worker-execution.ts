import { isOsmosisError, OsmosisError, type StartingModelCall } from '@osmosis/core'
import type {
  SamplesById,
  ExecutionBackend,
  GradingOutcome,
  ModelCallGates,
  RolloutRequest,
  WorkflowOutcome,
} from '@osmosis/protocol'
import { toFailure } from '@osmosis/server/execution'

import { retryFor } from '../connection/queue-retries.ts'
import type {
  QueuedExecutions,
  QueuedExecution,
  ExecutionState,
  SettleAnswer,
  TakeAnswer,
  Tries,
} from '../records/queued-executions.ts'

/** Parts that all executions of a worker share. */
export interface WorkerExecutionParts {
  readonly backend: ExecutionBackend
  readonly runs: QueuedExecutions
  /** How long an outcome waits for Redis. Milliseconds. */
  readonly patienceMs: number
  /** Called before each model call, see {@link ModelCallGates.modelCallBegins}. */
  readonly callBegins: (
    of: QueuedExecution,
    call: StartingModelCall,
    isMarked: boolean,
  ) => Promise<() => void>
}

/** One execution in this worker. It writes the reports of its backend to the record until it is abandoned. */
export class WorkerExecution {
  readonly of: QueuedExecution
  /** Settles when the outcome of the workflow is stored, or is no longer needed. */
  readonly workflow: Promise<void>
  /** Resolves when it has ended in this worker. */
  readonly ended: Promise<void>
  readonly #parts: WorkerExecutionParts
  readonly #request: RolloutRequest
  readonly #mayGrade = Promise.withResolvers<void>()
  /** Why it is ended early. */
  #ending: OsmosisError | undefined
  #isAbandoned = false
  /** Number of model calls before the mark, which counts them; undefined from then on. */
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
    this.ended = this.#record(workflow.resolve).then(
      // No caller waits for a workflow that was abandoned.
      () => workflow.resolve(),
      (error: unknown) => workflow.reject(error),
    )
    this.workflow.catch(() => {})
  }

  /** Applies the state of its record. Messages are only hints to read the record. */
  follow({ isCurrent, mayGrade, cancel }: ExecutionState): void {
    if (!isCurrent) this.abandon()
    if (cancel !== undefined) this.#end(cancel)
    if (mayGrade) this.#mayGrade.resolve()
  }

  /** Its grading may start. */
  allowGrading(): void {
    this.#mayGrade.resolve()
  }

  /** From now on it writes nothing to the record. */
  abandon(): void {
    this.#isAbandoned = true
    this.#end(abandoned)
  }

  #end(reason: OsmosisError): void {
    if (this.#ending !== undefined) return
    this.#ending = reason
    this.#parts.backend.cancel({ ids: [this.#request.rolloutId] })
    this.#mayGrade.resolve()
  }

  /** Writes the events of the rollout to its record. */
  async #record(workflowIsStored: () => void): Promise<void> {
    const { backend, runs } = this.#parts
    for await (const event of backend.execute(this.#request, this.#gates())) {
      if (event.type === 'started') runs.begin(this.of).catch(() => {})
      else if (event.type === 'graded') await this.#gradingFinished(event.outcome)
      else {
        await this.#workflowFinished(event.outcome, event.samples)
        workflowIsStored()
        if (event.outcome.failure === null && this.#request.grade) await this.#mayGrade.promise
      }
    }
  }

  #gates(): ModelCallGates {
    const { runs, callBegins } = this.#parts
    return {
      beforeFirstModelCall: async () => {
        const started = this.#started
        this.#started = undefined
        if (await this.#patiently(async () => runs.mark(this.of, started))) return
        const state = await this.#patiently(async () => runs.look(this.of))
        this.follow(state)
        throw state.cancel ?? abandoned
      },
      modelCallBegins: async (call) => {
        if (this.#isAbandoned) throw abandoned
        const isMarked = this.#started === undefined
        if (this.#started !== undefined) this.#started += 1
        return callBegins(this.of, call, isMarked)
      },
    }
  }

  async #workflowFinished(reported: WorkflowOutcome, samples: SamplesById): Promise<void> {
    const { runs } = this.#parts
    const outcome = this.#withReason(reported)
    const settled = await this.#settled(async (tries) =>
      runs.settleWorkflow(this.of, outcome, samples, this.#request.grade, tries),
    )
    if (settled === 'after_cancel') {
      const reason = (await this.#patiently(async () => runs.look(this.of))).cancel ?? abandoned
      this.#end(reason)
      const cancelled = failed(reason)
      await this.#settled(async (tries) =>
        runs.settleWorkflow(this.of, cancelled, new Map(), false, tries),
      )
    }
    const partial = await reported.partialSamples
    if (settled === 'stored' && partial !== undefined) {
      await this.#patiently(async () => runs.settlePartial(this.of, partial))
    }
  }

  async #gradingFinished(reported: GradingOutcome): Promise<void> {
    const { runs } = this.#parts
    const { samples } = reported
    const settled = await this.#settled(async (tries) =>
      runs.settleGrading(this.of, this.#withReason(reported), tries),
    )
    if (settled === 'after_cancel') {
      const reason = (await this.#patiently(async () => runs.look(this.of))).cancel ?? abandoned
      const outcome = { ...failed(reason), samples }
      await this.#settled(async (tries) => runs.settleGrading(this.of, outcome, tries))
    }
  }

  /** The backend only knows that it was cancelled; the record knows why. */
  #withReason<T extends WorkflowOutcome | GradingOutcome>(outcome: T): T {
    const { failure } = outcome
    const reason = this.#ending
    if (reason === undefined || !isOsmosisError(failure?.cause)) return outcome
    return failure.cause.code === 'cancelled' ? { ...outcome, failure: toFailure(reason) } : outcome
  }

  async #settled(settle: (tries: Tries) => Promise<SettleAnswer>): Promise<string> {
    if (this.#isAbandoned) return 'stale'
    const settled = await settle(async (ask) => this.#patiently(ask))
    if (settled === 'stale') this.abandon()
    return settled
  }

  async #patiently<T>(ask: () => Promise<T>): Promise<T> {
    return retryFor(this.#parts.patienceMs, ask)
  }
}

const abandoned = new OsmosisError(
  'worker_lost',
  'this worker was considered lost, so its execution of the rollout is abandoned',
)

function failed(reason: OsmosisError): WorkflowOutcome & { readonly status: 'failure' } {
  return { status: 'failure', failure: toFailure(reason), warnings: [] }
}

/** The executions in this worker, by rollout id. */
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
    run.ended
      .then(() => {
        if (this.#all.get(id) === run) this.#all.delete(id)
        return undefined
      })
      .catch(() => {})
  }

  /** @param message - `grade` or `look`, the number of the current execution, and the id of the rollout */
  onMessage(message: string): void {
    const [, what, current, id = ''] = /^(\w+) (\d+) (.*)$/s.exec(message) ?? []
    const run = this.#all.get(id)
    if (what === 'grade' && run?.of.run === Number(current)) run.allowGrading()
    else this.look(id).catch(() => {})
  }

  /** Reads the record of a rollout, which may be cancelled, graded or abandoned. */
  async look(id: string): Promise<void> {
    const run = this.#all.get(id)
    if (run !== undefined) run.follow(await this.#runs.look(run.of))
  }

  /** Reads all records, because messages may be lost. */
  async lookAtAll(): Promise<void> {
    await Promise.all([...this.#all.keys()].map(async (id) => this.look(id)))
  }

  /** Leaves all executions to other workers. */
  async leave(): Promise<void> {
    const all = [...this.#all.values()]
    for (const run of all) run.abandon()
    await Promise.all(all.map(async ({ of }) => this.#runs.leave(of)))
  }

  /** Resolves when all have ended. */
  async ended(): Promise<void> {
    while (this.#all.size > 0) await Promise.all([...this.#all.values()].map(({ ended }) => ended))
  }
}
