import { errorMessage, type StartingModelCall, type RolloutSample } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import type { SamplesById, GradingOutcome, WorkflowOutcome } from '@osmosis/protocol'
import type { LocalBackend } from '../execution/local-backend.ts'

import { receiveError, sendFailure, sendSamples, type SentError } from './portable-values.ts'
import type { ExecutionMessage } from './worker-messages.ts'
import type { ParentChannel, LaterMessage } from './parent-channel.ts'

/** An execution in this process. */
interface Run {
  readonly ending: AbortController
  /** Resolved when the grader may start. */
  readonly mayGrade: PromiseWithResolvers<void>
  /** Settled with the parent's answer to the mark, if it gives one. */
  readonly mayCallPolicy: PromiseWithResolvers<void>
  readonly calls: CallAnnouncements
}

/** Executes the rollouts that the parent sends, and reports their outcomes to it. */
export class ChildExecutions {
  readonly #backend: Pick<LocalBackend<never, never>, 'execute'>
  readonly #channel: ParentChannel
  readonly #runs = new Map<number, Run>()

  constructor(backend: Pick<LocalBackend<never, never>, 'execute'>, channel: ParentChannel) {
    this.#backend = backend
    this.#channel = channel
  }

  handle(message: Exclude<LaterMessage, { type: 'question' | 'leave' }>): void {
    if (message.type === 'run') {
      this.#start(message)
      return
    }
    const run = this.#runs.get(message.run)
    if (message.type === 'marked') {
      if (message.error === null) run?.mayCallPolicy.resolve()
      else run?.mayCallPolicy.reject(receiveError(message.error))
      return
    }
    if (message.type === 'call-answered') {
      run?.calls.answered(message.call, message.error)
      return
    }
    if (message.type === 'end') run?.ending.abort(receiveError(message.reason))
    // After an end, grading starts as well and fails immediately with its reason.
    run?.mayGrade.resolve()
  }

  #start(order: Extract<LaterMessage, { type: 'run' }>): void {
    const { run, request, answersMark, announcesCalls } = order
    const ending = new AbortController()
    const mayGrade = Promise.withResolvers<void>()
    const mayCallPolicy = Promise.withResolvers<void>()
    const calls = new CallAnnouncements(run, this.#channel)
    this.#runs.set(run, { ending, mayGrade, mayCallPolicy, calls })
    let hasFailed = false
    const observer = {
      phaseChanged: (phase: string) => {
        if (phase === 'running') this.#channel.post({ type: 'code-started', run })
      },
      beforeFirstModelCall: async () => {
        const marked = this.#channel.written({ type: 'policy-called', run })
        // In parallel: the answer may arrive before this process knows that the mark is written.
        await Promise.all(answersMark ? [marked, mayCallPolicy.promise] : [marked])
      },
      ...(announcesCalls && {
        modelCallBegins: async (call: StartingModelCall) => calls.begin(call),
      }),
      workflowFinished: async (outcome: WorkflowOutcome, samples: SamplesById = new Map()) => {
        this.#workflowFinished(run, outcome, samples)
        hasFailed = outcome.status === 'failure'
        if (!hasFailed && request.grade) await mayGrade.promise
      },
      gradingFinished: async ({ failure, samples }: GradingOutcome) => {
        // The parent knows that a failed workflow is not graded.
        if (hasFailed) return
        this.#post({ type: 'grading', run, failure: sendFailure(failure), samples: [] }, samples)
      },
    }
    this.#backend
      .execute(request, observer, ending.signal)
      .finally(() => this.#runs.delete(run))
      .catch((error: unknown) => this.#endUndelivered(run, error))
  }

  #workflowFinished(run: number, outcome: WorkflowOutcome, samples: SamplesById): void {
    const { failure, warnings, partialSamples, otherCalls } = outcome
    const sent = sendFailure(failure)
    this.#post({ type: 'workflow', run, failure: sent, warnings, otherCalls, samples: [] }, samples)
    partialSamples
      ?.then((partial) => this.#post({ type: 'partial', run, samples: [] }, partial))
      .catch(() => this.#channel.post({ type: 'partial', run, samples: [] }))
  }

  /** Reports a failure when the outcome cannot be sent in any form. */
  #endUndelivered(run: number, error: unknown): void {
    const message = `the worker could not report how the rollout ended: ${errorMessage(error)}`
    const failure = { message, category: 'agent_error', cause: { value: message } } as const
    const end = { run, failure, samples: [] } as const
    // The parent ignores the report of a phase that was already reported.
    this.#channel.post({ type: 'workflow', ...end, warnings: [], otherCalls: undefined })
    this.#channel.post({ type: 'grading', ...end })
  }

  #post(
    message: Extract<ExecutionMessage, { samples: readonly RolloutSample[] }>,
    samples: SamplesById,
  ): void {
    sendSamples(samples, (sent) => this.#channel.post({ ...message, samples: sent }))
  }
}

/** Announces the model calls of an execution to the parent; each waits for its answer. */
class CallAnnouncements {
  readonly #run: number
  readonly #channel: ParentChannel
  readonly #unanswered = new Map<number, PromiseWithResolvers<void>>()
  #calls = 0

  constructor(run: number, channel: ParentChannel) {
    this.#run = run
    this.#channel = channel
  }

  /** Implements `RolloutObserver.modelCallBegins`. */
  async begin({ endpoint, signal }: StartingModelCall): Promise<() => void> {
    const identity = { run: this.#run, call: (this.#calls += 1) }
    const answered = Promise.withResolvers<void>()
    this.#unanswered.set(identity.call, answered)
    this.#channel.post({ type: 'call', ...identity, endpoint })
    const end = (): void => this.#channel.post({ type: 'call-ended', ...identity })
    try {
      await untilAborted(signal, () => answered.promise)
      return end
    } catch (error) {
      end()
      throw error
    } finally {
      this.#unanswered.delete(identity.call)
    }
  }

  answered(call: number, error: SentError | null): void {
    const unanswered = this.#unanswered.get(call)
    if (error === null) unanswered?.resolve()
    else unanswered?.reject(receiveError(error))
  }
}
