import { isDeepStrictEqual } from 'node:util'

import { NativeSample, type RolloutContext, sharedSampleSource } from '@osmosis/core'

import type { AdkContent } from './adk-types.ts'

/** The conversation of a sample in Gemini's contents. The ADK makes new objects of them for each request. */
export function contentsRecord(): NativeSample<AdkContent> {
  return new NativeSample<AdkContent>({ isSame: isDeepStrictEqual, toStored: structuredClone })
}

const kind = Symbol.for('osmosis.google-adk')

/**
 * The record of a sample, registered with the rollout when it is new. Models of one name are one sample.
 *
 * @throws OsmosisError with code `duplicate_sample` when something else has the name, or `invalid_id`
 */
export function recordOf(rollout: RolloutContext, name: string): NativeSample<AdkContent> {
  return sharedSampleSource(rollout, name, { kind, create: contentsRecord })
}
