import * as sdk from 'ai'

import type { RolloutLanguageModel } from './language-model-types.ts'
import { RolloutModel, type RolloutModelSettings } from './policy-model.ts'
import { registerTelemetry } from './supported-sdk.ts'

/**
 * The policy, whichever that is at the time, as a model of the AI SDK. Pass it wherever a model is
 * expected: `generateText`, `streamText`, `Output`, `ToolLoopAgent`, `wrapLanguageModel`,
 * `prepareStep`. The rollout is found when the model is called, so one object may serve many
 * rollouts at once.
 *
 * Errors of the policy are thrown as `OsmosisError` and not retried: whatever was worth asking again
 * has been asked again. Outside of rollouts, calls of a model without a `fallback` fail with code
 * `no_rollout_context`.
 *
 * @param settings - a name alone, or settings
 */
export function rolloutModel(settings: string | RolloutModelSettings = {}): RolloutLanguageModel {
  return newRolloutModel(typeof settings === 'string' ? { name: settings } : settings)
}

/** The model that the calls of the SDK use. */
export function newRolloutModel(settings: RolloutModelSettings): RolloutModel {
  return new RolloutModel(settings, { customProvider: sdk.customProvider, registerTelemetry })
}
