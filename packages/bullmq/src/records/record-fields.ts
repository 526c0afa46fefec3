import type { GradingOutcome, WorkflowOutcome } from '@osmosis/runtime'

import { unpackSamples, type KeptSample, type Samples } from './kept-samples.ts'
import type { RolloutRecords } from './rollout-records.ts'
import {
  receiveGrading,
  receiveWorkflow,
  type SentGrading,
  type SentWorkflow,
} from './sent-outcome.ts'

/** What an outcome of a workflow is told with. */
export interface KeptWorkflow {
  readonly outcome: WorkflowOutcome
  readonly samples: Samples
}

/** Where the outcome of a workflow is. */
export const workflowFields = ['workflow', 'samples', 'partial'] as const

const none: Samples = new Map()

/** Fields of a record, each of which is opened when it is looked at. */
export class RecordFields {
  readonly #records: Pick<RolloutRecords, 'open'>
  readonly #id: string
  readonly #fields: ReadonlyMap<string, Buffer | null>

  constructor(
    records: Pick<RolloutRecords, 'open'>,
    id: string,
    fields: ReadonlyMap<string, Buffer | null>,
  ) {
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
    const read = (name: 'samples' | 'partial'): Samples => (isWhole ? this.samples(name) : none)
    const outcome = receiveWorkflow(sent as SentWorkflow, Promise.resolve(read('partial')))
    return { outcome, samples: read('samples') }
  }

  samples(name: 'samples' | 'partial' = 'samples'): Samples {
    return unpackSamples((this.open(name) ?? []) as readonly KeptSample[])
  }

  /** @param workflow - the samples as the workflow left them */
  grading(workflow: Samples): GradingOutcome | undefined {
    const sent = this.open('grading')
    return sent === undefined ? undefined : receiveGrading(sent as SentGrading, workflow)
  }
}
