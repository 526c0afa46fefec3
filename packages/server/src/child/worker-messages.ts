import type { EgressOptions, RolloutSample } from '@osmosis/core'
import type { RolloutRequest } from '@osmosis/protocol'

import type { SentError } from './sent-errors.ts'
import type { SentRolloutEvent } from './sent-events.ts'

// Messages between a parent and its workers. A rollout may be executed more than once, and an id may be
// used again, so each execution has its own number, `run`, in every message about it. Messages about an
// execution that the parent has abandoned are ignored.

/** To a worker. */
export type ParentMessage =
  /** Sent first, before user code is loaded: how the worker is watched. */
  | { readonly type: 'watch'; readonly beatMs: number; readonly maxMemoryBytes: number }
  | {
      readonly type: 'run'
      readonly run: number
      readonly request: RolloutRequest
      /** Whether the mark is answered, and the first model call waits for that. */
      readonly answersMark: boolean
      /** Whether each model call is announced, and waits for an answer. */
      readonly announcesCalls: boolean
    }
  /** The answer to the mark: the first model call may be sent, or fails with this error. */
  | { readonly type: 'marked'; readonly run: number; readonly error: SentError | null }
  /** The answer to an announced model call: it may be sent, or fails with this error. */
  | {
      readonly type: 'call-answered'
      readonly run: number
      readonly call: number
      readonly error: SentError | null
    }
  /** The outcome of the workflow was delivered, and a grader slot is free. */
  | { readonly type: 'grade'; readonly run: number }
  /** Ends an execution with this reason. */
  | { readonly type: 'end'; readonly run: number; readonly reason: SentError }
  | { readonly type: 'question'; readonly question: number; readonly value: unknown }
  /** The worker exits. */
  | { readonly type: 'leave' }

/** From a worker. */
export type WorkerMessage =
  | ReadyMessage
  /** The entrypoint cannot be loaded. */
  | { readonly type: 'refused'; readonly error: SentError }
  /** The event loop turns; with the resources of the process. */
  | ({ readonly type: 'beat' } & ProcessUsage)
  | ExecutionMessage
  | { readonly type: 'answer'; readonly question: number; readonly value: unknown }
  | { readonly type: 'no-answer'; readonly question: number; readonly error: SentError }

/** Resources that a process uses. */
export interface ProcessUsage {
  readonly residentBytes: number
  /** User and system, since its start. */
  readonly cpuSeconds: number
}

/** The entrypoint is loaded. */
export interface ReadyMessage {
  readonly type: 'ready'
  /** How it executes rollouts; undefined when it only answers questions. */
  readonly rollouts: WorkerRollouts | undefined
  /** Further data of the module about its entrypoint. */
  readonly facts: unknown
}

/** How workers execute rollouts. The limits are for all workers together. */
export interface WorkerRollouts {
  readonly artifactRoot: string
  readonly egress: EgressOptions | undefined
  /** Null: unlimited. */
  readonly workflows: number | null
  readonly graders: number | null
  readonly maxQueueDepth: number | undefined
  /** Whether there is a grader. */
  readonly graded: boolean
}

/** Reports about an execution. */
export type ExecutionMessage =
  | { readonly type: 'event'; readonly run: number; readonly event: SentRolloutEvent }
  /** What could be collected of a workflow that failed. */
  | { readonly type: 'partial'; readonly run: number; readonly samples: readonly RolloutSample[] }
  /**
   * The mark: the first model call is about to be sent. It is written before that, so that an execution
   * whose worker was lost without it can be repeated. The parent answers it if the order says so.
   */
  | { readonly type: 'policy-called'; readonly run: number }
  /** A model call is about to be sent. */
  | {
      readonly type: 'call'
      readonly run: number
      readonly call: number
      readonly endpoint: string
    }
  /** An announced model call has ended, or its answer is no longer needed. */
  | { readonly type: 'call-ended'; readonly run: number; readonly call: number }
