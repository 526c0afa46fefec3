import type { RolloutContext } from '@osmosis/core'
import { sharedByCopies } from '@osmosis/core/workflow'

import { SampleRecord } from './sample-record.ts'

type Records = Map<string, SampleRecord>

const rollouts = sharedByCopies('ai-sdk.records', () => new WeakMap<RolloutContext, Records>())

/** The records of a rollout by their sample ids. */
export function recordsOf(context: RolloutContext): Records {
  const known = rollouts.get(context)
  if (known) return known
  const records: Records = new Map()
  rollouts.set(context, records)
  return records
}

/**
 * The record of a sample, registered with the rollout when it is new. Models of one name are one
 * sample: in the SDK's programs they are made wherever they are needed.
 *
 * @throws OsmosisError with code `duplicate_sample` when something else has the name, or `invalid_id`
 */
export function recordOf(context: RolloutContext, name: string): SampleRecord {
  return recordsOf(context).get(name) ?? newRecord(context, name)
}

/**
 * A record that must be new.
 *
 * @throws OsmosisError with code `duplicate_sample` when the name is taken, or `invalid_id`
 */
export function newRecord(context: RolloutContext, name: string): SampleRecord {
  const record = new SampleRecord()
  context.registerSampleSource(name, record)
  recordsOf(context).set(name, record)
  return record
}
