import { OsmosisError } from '@osmosis/core'
import {
  afterLoss,
  stateAfter,
  transitionOf,
  type GradingOutcome,
  type LifecycleEvent,
  type LifecycleState,
  type ModelCallGates,
  type RolloutEvent,
  type RolloutRequest,
  type SamplesById,
} from '@osmosis/protocol'

import { isTooDeep } from '../portable-values.ts'
import { sendError, type SentError } from '../sent-errors.ts'
import { byId, receiveGrading, receiveWorkflow, type SentRolloutEvent } from '../sent-events.ts'
import type { ParentMessage, ExecutionMessage } from '../worker-messages.ts'

/** The order to execute a rollout. */
export interface ExecutionOrder {
  readonly request: RolloutRequest
  readonly gates: ModelCallGates
}

/** The worker of an execution was lost. */
export class WorkerLoss extends OsmosisError {
  /** What happened to the worker, for the messages of its rollouts. */
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
  /** Resolve with the report of the worker, or reject with a {@link WorkerLoss}. */
  readonly workflow = quiet<Extract<RolloutEvent, { type: 'workflow' }>>()
  readonly grading = quiet<GradingOutcome>()
  readonly #partial = Promise.withResolvers<SamplesById>()
  readonly #beforeFirstModelCall: (() => Promise<void>) | undefined
  readonly #calls: AnnouncedCalls | undefined
  readonly #send: (message: ParentMessage) => void
  #status: LifecycleState = 'queued'
  #calledPolicy = false
  #isGraded = false
  #hasEnded = false

  constructor(
    number: number,
    { request, gates: { beforeFirstModelCall, modelCallBegins } }: ExecutionOrder,
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

  /** Whether its user code is known to have started. */
  get hasStarted(): boolean {
    return this.#status !== 'queued' || this.#calledPolicy
  }

  /** Whether its first model call may have been sent. */
  get calledPolicy(): boolean {
    return this.#calledPolicy
  }

  /** Whether it could be executed again after the loss of this worker. */
  get isRepeatable(): boolean {
    const grading = !this.#isInWorkflow
    const lost = { cancelled: false, grading, calledPolicy: this.#calledPolicy }
    return afterLoss({ ...lost, lostWorkers: 0, executions: 1 }) === undefined
  }

  /** Whether the worker works on it: between the phases it waits for the parent. */
  get isAtWork(): boolean {
    return !this.#hasEnded && (this.#isInWorkflow || this.#isGraded)
  }

  /** Whether the worker waits for the parent, which has not asked for the grading. */
  get waitsForGrading(): boolean {
    return this.#status === 'grading' && !this.#isGraded && !this.#hasEnded
  }

  /** Whether the worker reports nothing more about it. */
  get hasEnded(): boolean {
    return this.#hasEnded
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

  /** Notifies the worker that it ends with this reason. */
  end(reason: unknown): void {
    if (!this.#hasEnded) this.#send({ type: 'end', run: this.number, reason: sendError(reason) })
  }

  handle(message: ExecutionMessage): void {
    switch (message.type) {
      case 'event':
        this.#report(message.event)
        return
      case 'policy-called':
        if (this.#calledPolicy || !this.#apply('policy_called')) return
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
      case 'partial':
        this.#hasEnded = true
        this.#partial.resolve(byId(message.samples))
    }
  }

  #report(sent: SentRolloutEvent): void {
    const { grade } = this.request
    if (sent.type === 'started') this.#apply('code_started')
    else if (sent.type === 'workflow') {
      const outcome = receiveWorkflow(sent.outcome, this.#partial.promise)
      const event = { type: 'workflow', outcome, samples: byId(sent.samples) } as const
      this.#apply(transitionOf(event, grade))
      // A failure is followed by its partial samples, a success by its grading.
      if (outcome.failure === null && !grade) this.#hasEnded = true
      this.workflow.resolve(event)
    } else {
      this.#hasEnded = true
      this.#partial.resolve(new Map())
      this.grading.resolve(receiveGrading(sent.failure, byId(sent.samples)))
    }
  }

  /** Returns whether the event is accepted: user code may write messages to the channel as well. */
  #apply(event: LifecycleEvent): boolean {
    const next = stateAfter({ status: this.#status, isCancelled: false }, event)
    if (next === 'stale' || next === 'after_cancel') return false
    this.#status = next
    return true
  }

  #answerMark(error: SentError | null): void {
    this.#send({ type: 'marked', run: this.number, error })
  }

  /** Ends its model calls, about which no message can arrive any more. */
  endCalls(): void {
    this.#calls?.endAll()
  }

  /** The worker was lost. Its reports so far stay valid. */
  lose(loss: WorkerLoss): void {
    this.endCalls()
    this.workflow.reject(loss)
    this.grading.reject(loss)
    this.#partial.resolve(new Map())
  }
}

/** As `PromiseWithResolvers`, which the declarations of this package must not need. */
interface Report<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (reason: unknown) => void
}

/** A promise that may reject before it is awaited. */
function quiet<T>(): Report<T> {
  const resolvers = Promise.withResolvers<T>()
  resolvers.promise.catch(() => {})
  return resolvers
}

type Answer = (call: number, error: SentError | null) => void

/** The model calls of an execution, as the worker announces them to the gates of the parent. */
class AnnouncedCalls {
  readonly #begins: NonNullable<ModelCallGates['modelCallBegins']>
  readonly #answer: Answer
  /** The calls that have not ended, by number. */
  readonly #going = new Map<number, AbortController>()

  constructor(begins: NonNullable<ModelCallGates['modelCallBegins']>, answer: Answer) {
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
