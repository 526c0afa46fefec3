import type { RolloutSample } from '@osmosis/core'
import type {
  GradingOutcome,
  RolloutEvent,
  RolloutFailure,
  SamplesById,
  WorkflowOutcome,
} from '@osmosis/protocol'

import { sendSamples } from './portable-values.ts'
import { receiveError, sendError, type SentError } from './sent-errors.ts'

// The events of a rollout in a form that another process can read, and that a queue can store.

/** A failure with the cause as it is sent. */
export type SentFailure = Omit<RolloutFailure, 'cause'> & { readonly cause: SentError }

/** The outcome of a workflow, without its partial samples: they follow when they are known. */
export interface SentWorkflow {
  readonly failure: SentFailure | null
  readonly warnings: readonly string[]
  readonly otherCalls?: WorkflowOutcome['otherCalls']
}

/** An event of a rollout. */
export type SentRolloutEvent =
  | { readonly type: 'started' }
  | {
      readonly type: 'workflow'
      readonly outcome: SentWorkflow
      readonly samples: readonly RolloutSample[]
    }
  | {
      readonly type: 'graded'
      readonly failure: SentFailure | null
      readonly samples: readonly RolloutSample[]
    }

/** Sends an event, its samples as completely as possible. */
export function sendEvent(event: RolloutEvent, send: (event: SentRolloutEvent) => void): void {
  if (event.type === 'started') return send(event)
  if (event.type === 'workflow') {
    const outcome = sendWorkflow(event.outcome)
    return sendSamples(event.samples, (samples) => send({ type: 'workflow', outcome, samples }))
  }
  const failure = sendFailure(event.outcome.failure)
  return sendSamples(event.outcome.samples, (samples) => send({ type: 'graded', failure, samples }))
}

export function sendFailure(failure: RolloutFailure | null): SentFailure | null {
  return failure && { ...failure, cause: sendError(failure.cause) }
}

function receiveFailure(sent: SentFailure | null): RolloutFailure | null {
  return sent && { ...sent, cause: receiveError(sent.cause) }
}

export function sendWorkflow({ failure, warnings, otherCalls }: WorkflowOutcome): SentWorkflow {
  return { failure: sendFailure(failure), warnings, otherCalls }
}

/** @param partialSamples - the samples of a workflow that failed */
export function receiveWorkflow(
  { failure: sent, warnings, otherCalls }: SentWorkflow,
  partialSamples: Promise<SamplesById>,
): WorkflowOutcome {
  const failure = receiveFailure(sent)
  return failure === null
    ? { status: 'success', failure, warnings, otherCalls }
    : { status: 'failure', failure, warnings, otherCalls, partialSamples }
}

export function receiveGrading(sent: SentFailure | null, samples: SamplesById): GradingOutcome {
  const failure = receiveFailure(sent)
  return { status: failure === null ? 'success' : 'failure', failure, samples }
}

export function byId(samples: readonly RolloutSample[]): SamplesById {
  return new Map(samples.map((sample) => [sample.id, sample]))
}
