import type { SamplesById, GradingOutcome, WorkflowOutcome } from '@osmosis/runtime'

import { unpackSamples, type KeptSample } from './kept-samples.ts'
import {
  receiveGrading,
  receiveWorkflow,
  type SentGrading,
  type SentWorkflow,
} from './sent-outcome.ts'

/** What an outcome of a workflow is told with. */
export interface KeptWorkflow {
  readonly outcome: WorkflowOutcome
  readonly samples: SamplesById
}

/** Where the outcome of a workflow is. */
export const workflowFields = ['workflow', 'samples', 'partial'] as const

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

  /** As it is kept; undefined when it is not there. */
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
  workflow(isWhole = true): KeptWorkflow | undefined {
    const sent = this.open('workflow')
    if (sent === undefined) return undefined
    const read = (name: 'samples' | 'partial'): SamplesById => (isWhole ? this.samples(name) : none)
    const outcome = receiveWorkflow(sent as SentWorkflow, Promise.resolve(read('partial')))
    return { outcome, samples: read('samples') }
  }

  samples(name: 'samples' | 'partial' = 'samples'): SamplesById {
    return unpackSamples((this.open(name) ?? []) as readonly KeptSample[])
  }

  /** @param workflow - the samples as the workflow left them */
  grading(workflow: SamplesById): GradingOutcome | undefined {
    const sent = this.open('grading')
    return sent === undefined ? undefined : receiveGrading(sent as SentGrading, workflow)
  }
}
