import type { EgressOptions, RolloutSample } from '@osmosis/core'
import type { RolloutRequest, WorkflowOutcome } from '@osmosis/runtime'

import type { SentError, SentFailure } from './sent-error.ts'

// What a parent and a worker send each other about rollouts. A rollout may be executed
// more than once, and an id may be used again: each execution has a number of its own, which is in every
// message about it, and messages about an execution that the parent has abandoned are ignored.

/** To a worker. */
export type ParentMessage =
  /** Before anything is loaded: how the worker is watched. */
  | { readonly type: 'watch'; readonly beatMs: number; readonly maxMemoryBytes: number }
  | {
      readonly type: 'run'
      readonly run: number
      readonly request: RolloutRequest
      /** Whether the mark is answered, and the first model call waits for that. */
      readonly answersMark: boolean
      /** Whether each model call is announced, and waits until it may begin. */
      readonly announcesCalls: boolean
    }
  /** The answer to the mark: the first model call may leave, or fails with this error. */
  | { readonly type: 'marked'; readonly run: number; readonly error: SentError | null }
  /** The answer to an announced model call: it may begin, or fails with this error. */
  | {
      readonly type: 'call-answered'
      readonly run: number
      readonly call: number
      readonly error: SentError | null
    }
  /** The outcome of the workflow has arrived where it had to, and there is a slot for the grader. */
  | { readonly type: 'grade'; readonly run: number }
  /** Ends a run with this reason. */
  | { readonly type: 'end'; readonly run: number; readonly reason: SentError }
  | { readonly type: 'question'; readonly question: number; readonly value: unknown }
  /** Nothing more is wanted. */
  | { readonly type: 'leave' }

/** From a worker. */
export type WorkerMessage =
  | ReadyMessage
  /** The entrypoint cannot be loaded. */
  | { readonly type: 'refused'; readonly error: SentError }
  /** The event loop turns; and what the process takes. */
  | ({ readonly type: 'beat' } & ProcessUsage)
  | ExecutionMessage
  | { readonly type: 'answer'; readonly question: number; readonly value: unknown }
  | { readonly type: 'no-answer'; readonly question: number; readonly error: SentError }

/** What a process takes of its machine. */
export interface ProcessUsage {
  readonly residentBytes: number
  /** User and system, since its start. */
  readonly cpuSeconds: number
}

/** The entrypoint is loaded. */
export interface ReadyMessage {
  readonly type: 'ready'
  readonly limits: WorkerLimits
  readonly artifactRoot: string
  readonly egress: EgressOptions | undefined
  /** What else the module of the worker has to say of its entrypoint. */
  readonly facts: unknown
}

/** How many rollouts may be where, for all workers together. */
interface WorkerLimits {
  /** Null: unlimited. */
  readonly workflows: number | null
  readonly graders: number | null
  readonly maxQueueDepth: number | undefined
  /** Whether there is a grader. */
  readonly graded: boolean
}

/** What happens in a run. */
export type ExecutionMessage =
  /** User code is about to run. */
  | { readonly type: 'began'; readonly run: number }
  /**
   * The mark: the first model call is about to leave. It is written before that, so that a run whose
   * worker was lost without it can be repeated elsewhere. The parent answers it when the message says so.
   */
  | { readonly type: 'asked'; readonly run: number }
  /** A model call is about to leave. */
  | {
      readonly type: 'call'
      readonly run: number
      readonly call: number
      readonly endpoint: string
    }
  /** An announced model call has ended, or its answer is no longer needed. */
  | { readonly type: 'call-ended'; readonly run: number; readonly call: number }
  | WorkflowMessage
  | { readonly type: 'partial'; readonly run: number; readonly samples: readonly RolloutSample[] }
  | GradingMessage

interface WorkflowMessage {
  readonly type: 'workflow'
  readonly run: number
  readonly failure: SentFailure | null
  readonly warnings: readonly string[]
  readonly otherCalls: WorkflowOutcome['otherCalls']
  readonly samples: readonly RolloutSample[]
}

interface GradingMessage {
  readonly type: 'grading'
  readonly run: number
  readonly failure: SentFailure | null
  readonly samples: readonly RolloutSample[]
}
