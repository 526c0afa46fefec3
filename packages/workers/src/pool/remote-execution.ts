import { OsmosisError, type RolloutSample } from '@osmosis/core'
import {
  endOfPhase,
  stateAfter,
  type GradingOutcome,
  type LifecycleEvent,
  type LifecycleState,
  type RolloutObserver,
  type RolloutRequest,
  type SamplesById,
  type WorkflowOutcome,
} from '@osmosis/runtime'

import { receiveFailure, sendError, type SentError } from '../protocol/sent-error.ts'
import { isTooDeep } from '../protocol/portable-values.ts'
import type { ParentMessage, ExecutionMessage } from '../protocol/worker-messages.ts'

/** What a worker is to run. */
export interface ExecutionOrder {
  readonly request: RolloutRequest
  /** See `RolloutObserver`; without it the first model call does not wait. */
  readonly beforeFirstModelCall: (() => Promise<void>) | undefined
  /** The same for each model call. */
  readonly modelCallBegins: RolloutObserver['modelCallBegins']
}

/** What a run reports of its workflow. */
export interface WorkflowReport {
  readonly outcome: WorkflowOutcome
  readonly samples: SamplesById
}

/** The worker of an execution was lost. */
export class WorkerLoss extends OsmosisError {
  /** What happened to the worker, for the texts of those that it took along. */
  readonly what: string

  constructor(what: string) {
    super('worker_lost', what)
    this.what = what
  }
}

/** One execution of a rollout in one worker, as the parent sees it. */
export class RemoteExecution {
  readonly number: number
  readonly request: RolloutRequest
  /** Settle with what the worker reports, and reject with a {@link WorkerLoss}. */
  readonly workflow = quiet<WorkflowReport>()
  readonly grading = quiet<GradingOutcome>()
  readonly #partial = Promise.withResolvers<SamplesById>()
  readonly #beforeFirstModelCall: (() => Promise<void>) | undefined
  readonly #calls: AnnouncedCalls | undefined
  readonly #send: (message: ParentMessage) => void
  #status: LifecycleState = 'queued'
  #calledPolicy = false
  #isGraded = false
  #isOver = false

  constructor(
    number: number,
    { request, beforeFirstModelCall, modelCallBegins }: ExecutionOrder,
    send: (message: ParentMessage) => void,
  ) {
    this.number = number
    this.request = request
    this.#beforeFirstModelCall = beforeFirstModelCall
    this.#calls =
      modelCallBegins &&
      new AnnouncedCalls(modelCallBegins, (call, error) =>
        send({ type: 'call-answered', run: number, call, error }),
      )
    this.#send = send
  }

  /** Whether its user code has run, as far as is known. */
  get hasStarted(): boolean {
    return this.#status !== 'queued' || this.#calledPolicy
  }

  /** Whether its first model call has left, as far as is known. */
  get calledPolicy(): boolean {
    return this.#calledPolicy
  }

  /** Whether another worker could execute it, should this one be lost. */
  get isRepeatable(): boolean {
    return this.#isInWorkflow && !this.#calledPolicy
  }

  /** Whether the worker has something to do for it: a rollout may wait for its grading, elsewhere. */
  get isAtWork(): boolean {
    return !this.#isOver && (this.#isInWorkflow || this.#isGraded)
  }

  /** Whether the worker reports nothing more about it. */
  get isOver(): boolean {
    return this.#isOver
  }

  get #isInWorkflow(): boolean {
    return this.#status === 'queued' || this.#status === 'running'
  }

  /** @throws OsmosisError with code `invalid_request` */
  start(): void {
    const { initialMessages, metadata } = this.request
    if (isTooDeep(initialMessages) || isTooDeep(metadata)) {
      throw new OsmosisError(
        'invalid_request',
        'The prompt or the metadata is nested too deeply to be sent to a worker.',
      )
    }
    this.#send({
      type: 'run',
      run: this.number,
      request: this.request,
      answersMark: this.#beforeFirstModelCall !== undefined,
      announcesCalls: this.#calls !== undefined,
    })
  }

  grade(): void {
    this.#isGraded = true
    this.#send({ type: 'grade', run: this.number })
  }

  /** Asks the worker to end it with this reason. */
  end(reason: unknown): void {
    if (!this.isOver) this.#send({ type: 'end', run: this.number, reason: sendError(reason) })
  }

  handle(message: ExecutionMessage): void {
    switch (message.type) {
      case 'began':
        this.#apply('code_started')
        return
      case 'asked':
        // Where track is lost of a worker, all of its runs are said to have asked.
        if (!this.isRepeatable) return
        this.#calledPolicy = true
        this.#beforeFirstModelCall?.().then(
          () => this.#answerMark(null),
          (error: unknown) => this.#answerMark(sendError(error)),
        )
        return
      case 'call':
        this.#calls?.begin(message.call, message.endpoint)
        return
      case 'call-ended':
        this.#calls?.end(message.call)
        return
      case 'workflow': {
        const failure = receiveFailure(message.failure)
        const { grade } = this.request
        this.#apply(endOfPhase('workflow', failure, grade))
        // A failure is followed by what was said until then, a success by its grading.
        if (failure === null && !grade) this.#isOver = true
        const status = failure === null ? 'success' : 'failure'
        const { warnings, otherCalls } = message
        const outcome = { status, failure, warnings, otherCalls } as const
        this.workflow.resolve({
          outcome:
            failure === null ? outcome : { ...outcome, partialSamples: this.#partial.promise },
          samples: byId(message.samples),
        })
        return
      }
      case 'partial':
        this.#isOver = true
        this.#partial.resolve(byId(message.samples))
        return
      case 'grading': {
        this.#isOver = true
        const failure = receiveFailure(message.failure)
        const status = failure === null ? 'success' : 'failure'
        this.#partial.resolve(new Map())
        this.grading.resolve({ status, failure, samples: byId(message.samples) })
      }
    }
  }

  /** What user code writes to the channel in the wrong order changes nothing. */
  #apply(event: LifecycleEvent): void {
    const next = stateAfter({ status: this.#status, isCancelled: false }, event)
    if (next !== 'stale' && next !== 'after_cancel') this.#status = next
  }

  #answerMark(error: SentError | null): void {
    this.#send({ type: 'marked', run: this.number, error })
  }

  /** Nothing more is heard of its model calls. */
  endCalls(): void {
    this.#calls?.endAll()
  }

  /** The worker was lost. What it has reported stays. */
  lose(loss: WorkerLoss): void {
    this.endCalls()
    this.workflow.reject(loss)
    this.grading.reject(loss)
    this.#partial.resolve(new Map())
  }
}

/** What a worker reports, sooner or later. Declarations must not need a library newer than ES2023. */
interface Report<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (reason: unknown) => void
}

/** A promise that may be rejected before anybody waits for it. */
function quiet<T>(): Report<T> {
  const resolvers = Promise.withResolvers<T>()
  resolvers.promise.catch(() => {})
  return resolvers
}

function byId(samples: readonly RolloutSample[]): SamplesById {
  return new Map(samples.map((sample) => [sample.id, sample]))
}

type Answer = (call: number, error: SentError | null) => void

/** The model calls of an execution, as the worker announces them to the observer of the parent. */
class AnnouncedCalls {
  readonly #begins: NonNullable<RolloutObserver['modelCallBegins']>
  readonly #answer: Answer
  /** Those that have not ended, by number. */
  readonly #going = new Map<number, AbortController>()

  constructor(begins: NonNullable<RolloutObserver['modelCallBegins']>, answer: Answer) {
    this.#begins = begins
    this.#answer = answer
  }

  begin(call: number, endpoint: string): void {
    const ending = new AbortController()
    this.#going.set(call, ending)
    this.#begins({ endpoint, signal: ending.signal }).then(
      (ended) => {
        if (ending.signal.aborted) return ended()
        ending.signal.addEventListener('abort', ended, { once: true })
        return this.#answer(call, null)
      },
      (error: unknown) => {
        // The answer to a call that has ended is not needed.
        if (this.#going.delete(call)) this.#answer(call, sendError(error))
      },
    )
  }

  end(call: number): void {
    const ending = this.#going.get(call)
    this.#going.delete(call)
    ending?.abort()
  }

  /** The worker was lost, or its execution is abandoned. */
  endAll(): void {
    for (const call of this.#going.keys()) this.end(call)
  }
}
