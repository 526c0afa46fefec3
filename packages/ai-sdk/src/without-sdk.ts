// For adapters of frameworks that have an AI SDK of their own: nothing here loads the package `ai`.
import type { RolloutLanguageModel } from './language-model-types.ts'
import { RolloutModel, type RolloutModelSettings } from './policy-model.ts'

export { toModelMessages, type ModelPrompt } from './chat-messages.ts'
export { type RolloutLanguageModel } from './language-model-types.ts'
export { type RolloutModelSettings } from './policy-model.ts'

/**
 * The policy as a model of version 4 of the AI SDK's interface, for calls of another framework. The SDK hears of no tools and
 * steps: the framework records what they gave.
 *
 * Errors of the policy are thrown as `OsmosisError`. Outside of rollouts calls fail with code `no_rollout_context`.
 */
export function policyModel(
  settings: Omit<RolloutModelSettings, 'fallback'>,
): RolloutLanguageModel {
  return new RolloutModel(settings)
}
