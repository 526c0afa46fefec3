import type { GradingOutcome, RolloutFailure, RolloutSample, WorkflowOutcome } from '@osmosis/core'
import { isCancellation } from '@osmosis/core/backend'
import { beginningOf, errorTextBytes } from '@osmosis/core/http'
import {
  receiveFailure,
  sendFailure,
  sendSamples,
  type SentFailure,
} from '@osmosis/workers/internal'

import type { RolloutRecords } from './rollout-records.ts'

export type Samples = ReadonlyMap<string, RolloutSample>

/** The outcome of a phase as it is kept. */
export interface SentOutcome {
  readonly failure: SentFailure | null
  readonly samples: readonly RolloutSample[]
  readonly warnings?: WorkflowOutcome['warnings']
  readonly otherCalls?: WorkflowOutcome['otherCalls']
}

/** How a phase ended, as it is read in a record. */
export interface PhaseEnd {
  readonly status: 'success' | 'failure' | 'cancelled'
  /** The single sample's reward; null with several, and without one. */
  readonly reward: number | null
  readonly message: string | null
}

export function sendWorkflow(outcome: WorkflowOutcome): Omit<SentOutcome, 'samples'> {
  const { failure, warnings, otherCalls } = outcome
  return { failure: sendFailure(failure), warnings, otherCalls }
}

export function sendGrading({ failure }: GradingOutcome): Omit<SentOutcome, 'samples'> {
  return { failure: sendFailure(failure) }
}

/** Packs an outcome. */
export function sealOutcome(
  records: Pick<RolloutRecords, 'seal'>,
  id: string,
  field: string,
  outcome: Omit<SentOutcome, 'samples'>,
  samples: Samples,
): Buffer {
  return sendSamples(samples, (sent) =>
    records.seal(id, field, { ...outcome, samples: sent } satisfies SentOutcome),
  )
}

/** @param partial - what was said in a workflow that failed, as far as it is known yet */
export function receiveWorkflow(
  sent: SentOutcome,
  partial: Promise<Samples> = Promise.resolve(new Map()),
): WorkflowOutcome {
  const failure = receiveFailure(sent.failure)
  const { warnings = [], otherCalls } = sent
  return failure === null
    ? { status: 'success', failure, warnings, otherCalls }
    : { status: 'failure', failure, warnings, otherCalls, partialSamples: partial }
}

export function receiveGrading(sent: SentOutcome): GradingOutcome {
  const failure = receiveFailure(sent.failure)
  const status = failure === null ? 'success' : 'failure'
  return { status, failure, samples: samplesOf(sent) }
}

export function samplesOf({ samples }: Pick<SentOutcome, 'samples'>): Samples {
  return new Map(samples.map((sample) => [sample.id, sample]))
}

export function phaseEnd(failure: RolloutFailure | null, samples: Samples): PhaseEnd {
  if (failure === null) {
    const [only, ...others] = samples.values()
    const reward = others.length === 0 && only && !only.removeSample ? only.reward : null
    return { status: 'success', reward, message: null }
  }
  const status = isCancellation(failure.cause) ? 'cancelled' : 'failure'
  return { status, reward: null, message: beginningOf(failure.message, errorTextBytes) }
}
