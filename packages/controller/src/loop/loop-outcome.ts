import type { FunctionTool, LoopCompletedBody, RolloutMetrics } from '@osmosis/protocol/wire'

import type { RolloutEnding, RolloutFacts, RolloutSessions } from '../session/rollout-sessions.ts'

/** How a rollout of a hand-written loop ended: the one terminal result of its order. */
export interface LoopOutcome extends RolloutFacts {
  /** `success` and `failure` are the loop's `COMPLETED` and `ERROR`. */
  readonly status: RolloutEnding
  /** The whole conversation, in chat completions form; empty without a report of the loop. */
  readonly finalMessages: readonly Readonly<Record<string, unknown>>[]
  /** Why the loop ended: `stop`, `max_turns`, or another word. */
  readonly finishReason: string | null
  /** Null when the loop gave none. */
  readonly reward: number | null
  /** Null for a success, and when the loop gave none. */
  readonly errorMessage: string | null
  /** The loop's own counts; null without a report of the loop. */
  readonly metrics: RolloutMetrics | null
}

/** A model call that the policy has answered, before the loop sees the answer. */
export interface AnsweredCall {
  /** The conversation so far, as the loop sent it. */
  readonly messages: readonly Readonly<Record<string, unknown>>[]
  readonly status: number
  /** Body of the answer. */
  readonly text: string
}

/** Accepts an answer with null, or refuses the call with the returned message. */
export type AnswerHook = (call: AnsweredCall) => string | null | Promise<string | null>

/** A trainer's state of a running rollout. */
export interface LoopState {
  /** The tools of the init answer, which are added to each model call. */
  readonly tools: {
    readonly promise: Promise<readonly FunctionTool[]>
    readonly resolve: (tools: readonly FunctionTool[]) => void
  }
  readonly onAnswer: AnswerHook | undefined
}

/** The rollouts of a trainer. */
export type LoopSessions = RolloutSessions<LoopOutcome, LoopState>

/** The outcome that the loop reported. */
export function reportedOutcome(facts: RolloutFacts, body: LoopCompletedBody): LoopOutcome {
  const failed = body.status === 'ERROR'
  return {
    ...facts,
    status: failed ? 'failure' : 'success',
    finalMessages: body.final_messages,
    finishReason: body.finish_reason ?? null,
    reward: body.reward ?? null,
    errorMessage: failed ? (body.error_message ?? null) : null,
    metrics: body.metrics,
  }
}

/** The outcome of a rollout whose deadline passed, or that the trainer's user cancelled. */
export function unreportedLoop(
  facts: RolloutFacts,
  status: 'timeout' | 'cancelled',
  errorMessage: string,
): LoopOutcome {
  const nothing = { finalMessages: [], finishReason: null, reward: null, metrics: null }
  return { ...facts, status, errorMessage, ...nothing }
}
