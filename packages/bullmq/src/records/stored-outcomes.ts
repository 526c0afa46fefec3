import type { GradingOutcome, SamplesById, WorkflowOutcome } from '@osmosis/runtime'
import { receiveFailure, sendFailure, type SentFailure } from '@osmosis/workers/messages'

import { unpackSamples, type StoredSample } from './stored-samples.ts'

/** The outcome of a workflow as it is stored, beside its samples. */
interface StoredWorkflowOutcome {
  readonly failure: SentFailure | null
  readonly warnings?: WorkflowOutcome['warnings']
  readonly otherCalls?: WorkflowOutcome['otherCalls']
}

/** The outcome of a grading as it is stored. */
export interface StoredGradingOutcome {
  readonly failure: SentFailure | null
  /** Undefined: all of them as the workflow left them. */
  readonly samples: readonly StoredSample[] | undefined
}

export function storeWorkflow(outcome: WorkflowOutcome): StoredWorkflowOutcome {
  const { failure, warnings, otherCalls } = outcome
  return { failure: sendFailure(failure), warnings, otherCalls }
}

/** @param partial - what was said in a workflow that failed, as far as it is known yet */
function restoreWorkflow(
  sent: StoredWorkflowOutcome,
  partial: Promise<SamplesById> = Promise.resolve(new Map()),
): WorkflowOutcome {
  const failure = receiveFailure(sent.failure)
  const { warnings = [], otherCalls } = sent
  return failure === null
    ? { status: 'success', failure, warnings, otherCalls }
    : { status: 'failure', failure, warnings, otherCalls, partialSamples: partial }
}

/** @param workflow - the samples as the workflow left them */
function restoreGrading(sent: StoredGradingOutcome, workflow: SamplesById): GradingOutcome {
  const failure = receiveFailure(sent.failure)
  const status = failure === null ? 'success' : 'failure'
  const samples = sent.samples === undefined ? workflow : unpackSamples(sent.samples, workflow)
  return { status, failure, samples }
}

/** The outcome of a workflow with its samples. */
export interface StoredWorkflow {
  readonly outcome: WorkflowOutcome
  readonly samples: SamplesById
}

const none: SamplesById = new Map()

/** Opens what is stored sealed. */
interface SealedValues {
  open(id: string, place: string, sealed: Buffer): unknown
}

/** Fields of a record, each of which is opened when it is looked at. */
export class RecordFields {
  readonly #records: SealedValues
  readonly #id: string
  readonly #fields: ReadonlyMap<string, Buffer | null>

  constructor(records: SealedValues, id: string, fields: ReadonlyMap<string, Buffer | null>) {
    this.#records = records
    this.#id = id
    this.#fields = fields
  }

  /** As it is stored; undefined when it is not there. */
  get(name: string): Buffer | undefined {
    return this.#fields.get(name) ?? undefined
  }

  open(name: string): unknown {
    const blob = this.get(name)
    return blob && this.#records.open(this.#id, name, blob)
  }

  /**
   * The outcome of the workflow, from the fields that have it.
   *
   * @param isWhole - whether samples are wanted as well; default: true
   */
  workflow(isWhole = true): StoredWorkflow | undefined {
    const sent = this.open('workflow')
    if (sent === undefined) return undefined
    const read = (name: 'samples' | 'partial'): SamplesById => (isWhole ? this.samples(name) : none)
    const outcome = restoreWorkflow(sent as StoredWorkflowOutcome, Promise.resolve(read('partial')))
    return { outcome, samples: read('samples') }
  }

  samples(name: 'samples' | 'partial' = 'samples'): SamplesById {
    return unpackSamples((this.open(name) ?? []) as readonly StoredSample[])
  }

  /** @param workflow - the samples as the workflow left them */
  grading(workflow: SamplesById): GradingOutcome | undefined {
    const sent = this.open('grading')
    return sent === undefined ? undefined : restoreGrading(sent as StoredGradingOutcome, workflow)
  }
}
