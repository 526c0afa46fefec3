import type { CallTrace } from '../tracing/rollout-trace.ts'
import type { RolloutBudget } from '../workflow/rollout-limits.ts'
import type { PolicyAnswer } from './answer/policy-answer.ts'
import type { CallRecorder } from './call-log.ts'
import type { ChatCompletion } from './chat-completion.ts'
import type { FailedCalls } from './failed-calls.ts'
import { type Answered, stoppedReading } from './policy-stream.ts'
import { agentUse, type CallUse } from './policy-wire.ts'

/** What a model call belongs to. */
interface CallOptions {
  /** Of the rollout. */
  readonly signal: AbortSignal
  /** Of the caller. */
  readonly own: AbortSignal | undefined
  readonly budget: RolloutBudget | undefined
  /** Settled with the answer, for callers that read its chunks. */
  readonly answered: Answered | undefined
  /** Those of the sample. */
  readonly failures: FailedCalls
}

/** A model call from its beginning to its end, of which it has one. What has begun with it ends with it. */
export class OngoingCall {
  readonly signal: AbortSignal
  /** What it is for, when that is known. */
  use: CallUse = agentUse
  recorder: CallRecorder | undefined
  trace: CallTrace | undefined
  /** Says to whoever counts the calls in progress that this one has ended. */
  release: (() => void) | undefined
  answer: PolicyAnswer | undefined
  readonly #options: CallOptions
  #hasEnded = false

  constructor(options: CallOptions) {
    const { signal, own } = options
    this.signal = own ? AbortSignal.any([signal, own]) : signal
    this.#options = options
  }

  /** Ends the call with its answer, which is recorded. Returns it as the agent gets it. */
  succeed({ built }: PolicyAnswer): ChatCompletion {
    const completion = built.completion()
    const recorded = built.recorded()
    this.recorder?.succeed(recorded, { shown: completion.choices[0]?.message })
    this.#options.budget?.spend(completion.usage)
    this.#options.answered?.resolve(completion)
    this.#end(undefined, recorded)
    return completion
  }

  /** Ends the call with an error. Returns what the caller gets. */
  fail(error: unknown): unknown {
    const { own, answered, signal, failures } = this.#options
    // An abort can arrive as any error; its reason says what happened.
    const failure: unknown = this.signal.aborted ? this.signal.reason : error
    if (own?.aborted) this.recorder?.leave(failure)
    else if (this.recorder) this.recorder.fail(failure)
    // Of a request that could not be made there is no record.
    else if (!signal.aborted) failures.fail(failure, { about: this.use })
    answered?.reject(failure)
    this.#end(failure)
    return failure
  }

  /** Ends the call because its caller reads no more, unless it has ended. */
  async leave(): Promise<void> {
    if (this.#hasEnded) return
    // Only usage can follow the finish reason, so that behind it the answer is whole.
    if (this.answer?.built.hasEnded) {
      await this.answer.readUsage()
      this.succeed(this.answer)
      return
    }
    const failure = stoppedReading()
    this.recorder?.leave(failure)
    this.#options.answered?.reject(failure)
    this.#end(failure)
  }

  #end(failure: unknown, answer?: ChatCompletion): void {
    this.#hasEnded = true
    this.answer?.close()
    this.release?.()
    const call = this.recorder?.measured
    const message = answer?.choices[0]?.message
    this.trace?.end(call && { call, responseId: answer?.id || undefined, message }, failure)
  }
}
