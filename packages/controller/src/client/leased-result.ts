import {
  type RolloutStatus,
  leasedResultSchema,
  singleSampleSchema,
  type LeasedErrorCategory,
} from '@osmosis/runtime/wire'
import { z } from 'zod'

import type { ResultSample } from '../workflow/rollout-outcome.ts'

/** What a rollout server says about a rollout: how far it has come, or how it ended. */
export interface LeasedResult {
  readonly rolloutId: string
  readonly status: RolloutStatus
  /** Null until the end, and when there is none or several. */
  readonly sample: Omit<ResultSample, 'id'> | null
  /** Null for a success, and until the end. */
  readonly errorMessage: string | null
  /** Null for a success, until the end, and when the server gave none that is known. */
  readonly errorCategory: LeasedErrorCategory | null
}

// Of a sample that could not be written as JSON the server gives reward and label alone.
const sample = singleSampleSchema.extend({ messages: z.array(z.unknown()).default([]) })
const resultSchema = leasedResultSchema.extend({ sample: sample.nullable() })

/** An answer of `GET /rollout/{id}/result`. */
export const leasedResult: z.ZodType<LeasedResult> = resultSchema.transform((body) => ({
  rolloutId: body.rollout_id,
  status: body.status,
  sample: body.sample && {
    messages: body.sample.messages,
    label: body.sample.label ?? null,
    reward: body.sample.reward ?? null,
    removeSample: body.sample.remove_sample,
    metrics: body.sample.metrics,
    extraFields: body.sample.extra_fields,
  },
  errorMessage: body.err_message,
  errorCategory: body.err_category,
}))

/** Whether a rollout with this status has ended. */
export function isTerminal(status: RolloutStatus): boolean {
  return status === 'success' || status === 'failure' || status === 'cancelled'
}
