import type { GradingOutcome, SamplesById, WorkflowOutcome } from '@osmosis/runtime'
import { receiveFailure, sendFailure, type SentFailure } from '@osmosis/workers/messages'

import { unpackSamples, type KeptSample } from './kept-samples.ts'

/** The outcome of a workflow as it is kept, beside its samples. */
export interface SentWorkflow {
  readonly failure: SentFailure | null
  readonly warnings?: WorkflowOutcome['warnings']
  readonly otherCalls?: WorkflowOutcome['otherCalls']
}

/** The outcome of a grading as it is kept. */
export interface SentGrading {
  readonly failure: SentFailure | null
  /** Undefined: all of them as the workflow left them. */
  readonly samples: readonly KeptSample[] | undefined
}

export function sendWorkflow(outcome: WorkflowOutcome): SentWorkflow {
  const { failure, warnings, otherCalls } = outcome
  return { failure: sendFailure(failure), warnings, otherCalls }
}

/** @param partial - what was said in a workflow that failed, as far as it is known yet */
export function receiveWorkflow(
  sent: SentWorkflow,
  partial: Promise<SamplesById> = Promise.resolve(new Map()),
): WorkflowOutcome {
  const failure = receiveFailure(sent.failure)
  const { warnings = [], otherCalls } = sent
  return failure === null
    ? { status: 'success', failure, warnings, otherCalls }
    : { status: 'failure', failure, warnings, otherCalls, partialSamples: partial }
}

/** @param workflow - the samples as the workflow left them */
export function receiveGrading(sent: SentGrading, workflow: SamplesById): GradingOutcome {
  const failure = receiveFailure(sent.failure)
  const status = failure === null ? 'success' : 'failure'
  const samples = sent.samples === undefined ? workflow : unpackSamples(sent.samples, workflow)
  return { status, failure, samples }
}
