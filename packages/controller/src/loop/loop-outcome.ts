import type { FunctionTool, LoopCompletedBody, RolloutMetrics } from '@osmosis/runtime/wire'

import type { RolloutEnding, RolloutFacts } from '../session/rollout-session.ts'
import type { RolloutSessions } from '../session/rollout-sessions.ts'

/** How a rollout of a hand-written loop ended: the one terminal result of its order. */
export interface LoopOutcome extends RolloutFacts {
  /** `success` and `failure` are what the loop said: `COMPLETED` and `ERROR`. */
  readonly status: RolloutEnding
  /** The whole conversation, in chat completions form; empty when the loop did not end itself. */
  readonly finalMessages: readonly Readonly<Record<string, unknown>>[]
  /** Why the loop ended: `stop`, `max_turns`, or a word of its own. */
  readonly finishReason: string | null
  /** Null when the loop gave none. */
  readonly reward: number | null
  /** Null for a success, and when the loop gave none. */
  readonly errorMessage: string | null
  /** What the loop counted; null when it did not end itself. */
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

/** Decides what becomes of an answer: null lets it pass, a text refuses the call with it. */
export type AnswerHook = (call: AnsweredCall) => string | null | Promise<string | null>

/** What a trainer remembers of a rollout that runs. */
export interface LoopState {
  /** The tools of the init answer, which go into each model call; known once that has come. */
  readonly tools: {
    readonly promise: Promise<readonly FunctionTool[]>
    readonly resolve: (tools: readonly FunctionTool[]) => void
  }
  readonly onAnswer: AnswerHook | undefined
}

/** The rollouts of a trainer. */
export type LoopSessions = RolloutSessions<LoopOutcome, LoopState>

/** The end that the loop reported. */
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

/** The end of a rollout whose deadline passed. */
export function timedOutLoop(facts: RolloutFacts, timeoutMs: number): LoopOutcome {
  return unreported(facts, 'timeout', `no result within ${timeoutMs / 1000} s`)
}

/** The end of a rollout that the trainer's user gave up. */
export function cancelledLoop(facts: RolloutFacts): LoopOutcome {
  return unreported(facts, 'cancelled', 'cancelled')
}

function unreported(
  facts: RolloutFacts,
  status: 'timeout' | 'cancelled',
  errorMessage: string,
): LoopOutcome {
  const nothing = { finalMessages: [], finishReason: null, reward: null, metrics: null }
  return { ...facts, status, errorMessage, ...nothing }
}
